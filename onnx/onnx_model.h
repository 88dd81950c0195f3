// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/backend/dtype.h>
#include <tutti/nn/layer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// An input or output of a model from an ONNX file.
struct OnnxValue {
  std::string name;
  std::optional<DType> dtype = {};                     ///< none: the file does not tell
  std::optional<std::vector<std::string>> shape = {};  ///< "32", a name, or "?" each; none: the file does not tell
};

struct OnnxOptions {
  Device device = cpu();
  bool trainable = false;  ///< weights require gradients
};

/// The model of an ONNX file, of opsets 7 to 28: docs/onnx.md lists the operators. It computes with the library's own
/// operations, so it may be trained. Weights that are floats are its parameters, statistics and other constants its
/// buffers, by the file's names; on a CPU device weights that lie aligned in the file are views of it, which reads them
/// when they are first used. Several threads may run it at the same time, each under Inference.
class OnnxModel final : public Layer {
 public:
  /// Throws DataError naming the file for what is malformed, of another opset, or needs operators that are not here:
  /// all of them are named.
  explicit OnnxModel(const std::string& path, const OnnxOptions& = {});

  /// Outputs in the file's order, of inputs in the file's order. Inputs lie on the device of the weights. What a node
  /// makes is dropped after its last use. Throws ShapeError and DTypeError for inputs that are not as the file says,
  /// and DataError, naming the node, for what an operator does not do.
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;

  const std::vector<OnnxValue>& inputs() const noexcept;
  const std::vector<OnnxValue>& outputs() const noexcept;
  std::int64_t opset() const noexcept;

  void visit(MemberVisitor&) override;

 private:
  struct Program;
  struct Constant {
    std::string name;
    Tensor value;
    bool is_weight = false;
  };

  Tensor compute(const Tensor& x) const override;  // runs a model with one input and one output

  std::shared_ptr<const Program> program_;
  std::vector<Constant> constants_;
};

}  // namespace tutti
