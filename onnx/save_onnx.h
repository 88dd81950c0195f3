// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/layer.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

struct OnnxSaving {
  std::vector<std::string> inputs = {};   ///< names; none: "input", or "input_0", ... of several
  std::vector<std::string> outputs = {};  ///< names; none: "output", or "output_0", ... of several
  /// Names of the axes whose lengths are free, of each input: whoever runs the file chooses them. Axes of one name have
  /// one length; "": the length is the example's. None: the first axis of each input is "batch".
  std::optional<std::vector<std::vector<std::string>>> axes = {};
};

/// Outputs of a model from its inputs.
using TensorFunction = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

/// Writes what the model computes, in evaluation mode, as a file of ONNX, of opset 20: docs/onnx.md says what may be
/// saved. The model is run with the example, cut or repeated to other values of the free lengths, about twice as long
/// ones among them: the operations that it calls then are what the file does, whatever code calls them. The file is
/// read and run with all of these before it takes its place, which it does in one step: one that computes something
/// else than the model is an Error. Members have the model's names in the file.
///
/// Throws Error, naming the operation and the layer, for what ONNX has no operators for, for random numbers, for a
/// model that writes to its members or asks for values on the host, and for one that computes otherwise with other
/// lengths; ShapeError for examples that are not as `axes` says; DataError naming the path. Not within a captured step:
/// CaptureError.
void save_onnx(const std::string& path, Layer& model, const Tensor& example, const OnnxSaving& = {});
/// The same of a module that is called otherwise, by `run`, with any number of inputs and outputs.
void save_onnx(const std::string& path, Module& model, const TensorFunction& run, std::span<const Tensor> examples,
               const OnnxSaving& = {});

}  // namespace tutti
