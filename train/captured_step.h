// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/nn/captured/capture_options.h>
#include <tutti/nn/module.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti {

class CapturedRun;
class Step;

using CapturedStepOptions = CaptureOptions;

/// Forward and backward of a training step that are captured once and then replayed: the kernels alone, in the same
/// order on memory that is planned ahead, without tensors, graph or checks of shapes. Bitwise the same as calling the
/// function and `backward` each time. Clipping and the optimizer's step are not in it: call them after it, as always.
///
///   CapturedStep step(model, [&](std::span<const Tensor> batch) {
///     return std::vector{cross_entropy(model(batch[0]), batch[1])};
///   });
///   for (...) {
///     const std::vector<Tensor> loss = step({inputs, targets});
///     optimizer.step();
///     optimizer.zero_grad();
///   }
///
/// The first batch of each shape is run eagerly, the second and third are run captured; only if both did the same is
/// the fourth replayed. A batch of other shapes or types, gradients in another state (micro-batches that accumulate) or
/// another place, another weight of the step, a parameter with another array and a generator that is gone lead to a new
/// capture; `report` says why. CaptureError where a step cannot be replayed: it reads values on the host, takes them
/// from the host, draws random numbers there, keeps tensors that it made, works on a second device, or did something
/// else the second time (a number that changes from step to step: pass it as an input, as a tensor). What changes later
/// on the host, unseen by devices (another branch, `model.eval()`), is for `invalidate`; without it, CaptureError at
/// the next check (CapturedStepOptions::check_every), if there still is one.
///
/// Replays draw the random numbers that the step itself would draw. Outputs are the caller's. With a Step, gradients
/// are reduced as in Step::backward: the captured registration is sent, each gradient is submitted between segments of
/// the tape, and the server launches. One thread at a time.
class CapturedStep {
 public:
  /// Makes the results of the batch's tensors: the loss, with one element, which is back-propagated; then whatever else
  /// is wanted. The batch's tensors must be the device's, without gradients.
  using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

  /// Captures steps of all parameters and buffers of the model; other tensors that the function uses must stay what
  /// they are. Throws CaptureError for parameters with sparse gradients, on several devices, or none.
  CapturedStep(Module& model, Function function, CapturedStepOptions options = {});
  ~CapturedStep();
  CapturedStep(CapturedStep&&) noexcept;
  CapturedStep& operator=(CapturedStep&&) = delete;

  /// `scale` multiplies the loss's gradient, as BackwardOptions::scale; another one is another capture.
  std::vector<Tensor> operator()(std::span<const Tensor> batch, double scale = 1.0);
  std::vector<Tensor> operator()(std::initializer_list<Tensor> batch, double scale = 1.0) {
    return (*this)(std::span(batch.begin(), batch.size()), scale);
  }
  /// The synchronised backward of `step`, joined.
  std::vector<Tensor> operator()(std::span<const Tensor> batch, Step& step);
  std::vector<Tensor> operator()(std::initializer_list<Tensor> batch, Step& step) {
    return (*this)(std::span(batch.begin(), batch.size()), step);
  }
  /// Runs the step without waiting for the synchronised backward of `step`, as Step::backward_async.
  std::vector<Tensor> run_async(std::span<const Tensor> batch, Step& step);

  /// Drops all captures: the next steps are captured anew.
  void invalidate(std::string reason);

  /// Asks for an early check: captures that were replayed a hundred times since they were last checked are checked when
  /// they are used next: at most one step in a hundred. To be called where the function may begin to do something else,
  /// as at the beginning of an epoch.
  void check_soon();

  using Report = CaptureReport;
  Report report() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti
