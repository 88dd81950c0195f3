// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/layer.h>

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

/// Names of one input's axes, {"batch", "", "length"}: one that is named has a free length, which whoever runs the file
/// chooses, and axes of one name, of all inputs, have one length; "": the length is the example's. {}: all are.
class OnnxAxes {
 public:
  OnnxAxes() = default;
  OnnxAxes(std::initializer_list<std::string_view> names) : names_(names.begin(), names.end()) {}
  explicit OnnxAxes(std::vector<std::string> names) : names_(std::move(names)) {}
  const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  std::vector<std::string> names_;
};

struct OnnxSaving {
  std::vector<std::string> inputs = {};   ///< names; none: "input", or "input_0", ... of several
  std::vector<std::string> outputs = {};  ///< names; none: "output", or "output_0", ... of several
  std::vector<OnnxAxes> axes = {};        ///< one for each input; none: the first axis of each is "batch"
};

/// Outputs of a model from its inputs.
using TensorFunction = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

/// Writes what the model computes as a file of ONNX, of opset 20: docs/onnx.md says what may be saved. Call eval()
/// before. The model is run some times with the example, cut or repeated to other values of the free lengths: the
/// operations that it calls then are what the file does, whatever code calls them. A branch on a length that none of
/// these runs took is not seen. The file takes its place, in one step, once it has been read and has given what the
/// model gives, with the example, with other values, and with free lengths of 1. Members have the model's names in it.
///
/// Throws Error, naming the operation and the layer, for what ONNX has no operators for, for random numbers, for a
/// model that writes to its members or asks for values on the host, for one that computes otherwise with other lengths,
/// and for a file that computes something else; ShapeError for examples that are not as `axes` says; DataError naming
/// the path. Not within a captured step: CaptureError.
void save_onnx(const std::string& path, Layer& model, const Tensor& example, const OnnxSaving& = {});
/// The same of a module that is called otherwise, by `run`, with any number of inputs and outputs.
void save_onnx(const std::string& path, Module& model, const TensorFunction& run, std::span<const Tensor> examples,
               const OnnxSaving& = {});

}  // namespace tutti
