// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/captured/capture_options.h>
#include <tutti/nn/layer.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Replays of a model under Inference, captured once for each shape of its inputs: the kernels alone, in the same order
/// on memory that is planned ahead, without tensors or checks of shapes. The bits are those of calling it with
/// contiguous inputs.
///
///   CapturedForward forward(model);
///   const Tensor y = forward(x);
///
/// The first inputs of each shape are run eagerly, the second and third captured; only if both did and returned the
/// same are the fourth replayed. Inputs are copied, and outputs are the caller's. CaptureError where a call cannot be
/// replayed: it reads values on the host, takes them from there, keeps tensors that it made or was given, works on a
/// second device, or did something else the second time; and for a literal among the inputs, which has no type yet.
/// What changes later on the host, unseen by devices (`model.train()`), is for `invalidate`; without it the next check
/// throws CaptureError (CaptureOptions::check_every). Hooks do not run in replays. Parameters may be written to in
/// place; other members of the model, another array of one, or another Autocast lead to another capture. Called while
/// another one captures, it is a part of that. With more sorts of inputs in turn than CaptureOptions::most_captures
/// each is captured anew, which takes longer than to run it: pad them to fewer lengths.
///
/// One thread at a time: several have one each, and share the model's weights.
class CapturedForward {
 public:
  /// Makes the outputs of the inputs.
  using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

  /// Calls a model with one input and one output, which outlives this.
  explicit CapturedForward(Layer& model, CaptureOptions options = {});
  /// Calls a function that uses the members of `model`, which outlives this; other tensors that it uses must stay what
  /// they are. Error for `check_every` below 0.
  CapturedForward(Module& model, Function function, CaptureOptions options = {});
  ~CapturedForward();
  CapturedForward(CapturedForward&&) noexcept;
  CapturedForward& operator=(CapturedForward&&) = delete;

  /// CaptureError without inputs, and for inputs and members on several devices.
  std::vector<Tensor> operator()(std::span<const Tensor> inputs);
  std::vector<Tensor> operator()(std::initializer_list<Tensor> inputs) {
    return (*this)(std::span(inputs.begin(), inputs.size()));
  }
  Tensor operator()(const Tensor& x);  ///< the first output

  /// Drops all captures: the next calls are captured anew.
  void invalidate(std::string reason);
  CaptureReport report() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti
