// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/gradient_scaler.h>
#include <tutti/train/captured_step.h>
#include <tutti/train/eager_trainer.h>

#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// Items that show their tensors, so that a captured step can put its own in their place. Whatever else an item has
/// must be the same in all items whose tensors have these shapes, or not matter to the losses.
template <class Item>
concept ShowsTensors = std::copyable<Item> && requires(Item& item) { item.visit_tensors([](Tensor&) {}); };

/// A CapturedStep whose results have names.
class CapturedLosses {
 public:
  struct Results {
    Tensor minimised;
    Losses losses;
  };
  using Function = std::function<Results(std::span<const Tensor>)>;

  CapturedLosses(Module& model, Function function, CapturedStepOptions options);
  CapturedLosses(const CapturedLosses&) = delete;
  CapturedLosses& operator=(const CapturedLosses&) = delete;

  Losses operator()(std::span<const Tensor> batch, Step*, double scale);
  void invalidate(std::string reason);
  void check_soon() { step_.check_soon(); }
  CapturedStep::Report report() const { return step_.report(); }

 private:
  std::vector<Tensor> call(std::span<const Tensor> batch);

  Function function_;
  std::vector<std::string> names_;
  CapturedStep step_;
};

/// An EagerTrainer whose forward and backward are captured once for each shape of batch and then replayed, with the
/// same function, options, hooks and checkpoints, and bitwise the same results. Gradients are synchronised while the
/// replay goes on; clipping and the optimizer follow it, as they do eagerly, since their rates change and they are one
/// kernel each. What a captured step refuses (CapturedStep) ends training by CaptureError; a change that no replay can
/// see (another branch of the losses, a part of the model in evaluation mode) is for `invalidate`, and ends training at
/// the next check without it: they come after 1, 2, 4, ... replays, then every CapturedStepOptions::check_every, and as
/// an epoch begins after 100 or more. Evaluation is eager. After LiBai's trainer of this name.
///
///   GraphTrainer<Batch> trainer(model, optimizer, batches, [&](const Batch& batch) -> Losses {
///     return {{"loss", cross_entropy(model(batch.inputs), batch.targets)}};
///   });
///
/// With `whole_updates` a step takes all batches of an update, one after the other; with a `joined` stream they are
/// concatenated. Results have the same names in each step, else CaptureError; after `invalidate` they may have others.
template <class Item> class GraphTrainer : public EagerTrainer<Item> {
  static_assert(ShowsTensors<Item>, "a GraphTrainer's items have visit_tensors(f), which calls f with each Tensor&");

 public:
  using typename EagerTrainer<Item>::LossFunction;

  /// CaptureError for parameters on several devices, with sparse gradients, or none.
  GraphTrainer(Module& model, Optimizer& optimizer, DataStream<Item>& data, LossFunction losses,
               EagerOptions options = {}, CapturedStepOptions capture = {})
      : EagerTrainer<Item>(model, optimizer, data, std::move(losses), std::move(options)),
        captured_(
            model, [this](std::span<const Tensor> tensors) { return results(tensors); }, capture) {}

  /// The next steps are captured anew: to be called where something changes that a replay cannot see.
  void invalidate(std::string reason) { captured_.invalidate(std::move(reason)); }
  CapturedStep::Report captures() const { return captured_.report(); }

 protected:
  void start_epoch(std::int64_t epoch) override {
    EagerTrainer<Item>::start_epoch(epoch);
    captured_.check_soon();  // settings that follow the epoch change here
  }
  Losses pass(const Item& item, Step* step, double scale) override {
    if (const GradientScaler* scaler = this->options().scaler) follow(scaler->scale());
    item_ = &item;
    std::vector<Tensor> tensors;
    std::vector<bool> defined;
    Item shown = item;
    shown.visit_tensors([&](Tensor& tensor) {
      defined.push_back(tensor.defined());
      if (tensor.defined()) tensors.push_back(tensor);
    });
    if (!defined_.empty() && defined != defined_) captured_.invalidate("other tensors of an item are defined");
    defined_ = std::move(defined);
    return captured_(tensors, step, scale);
  }

 private:
  CapturedLosses::Results results(std::span<const Tensor> tensors) {
    Item given = *item_;
    std::size_t next = 0;
    given.visit_tensors([&](Tensor& tensor) {
      if (tensor.defined()) tensor = tensors[next++];
    });
    Losses losses = this->forward([&] { return this->losses()(given); });
    Tensor minimised = this->minimised(losses);
    return {std::move(minimised), std::move(losses)};
  }

  // The scale is a number on the tape.
  void follow(double loss_scale) {
    if (std::exchange(loss_scale_, loss_scale) != loss_scale) captured_.invalidate("the scale of gradients changed");
  }

  const Item* item_ = nullptr;  // item of the pass that runs
  std::vector<bool> defined_;   // item's tensors that were defined in the pass before
  double loss_scale_ = 1;
  CapturedLosses captured_;
};

}  // namespace tutti
