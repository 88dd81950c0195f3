// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/module.h>
#include <tutti/optim/optimizer.h>
#include <tutti/train/data/data_stream.h>
#include <tutti/train/loop/empty_item.h>
#include <tutti/train/loop/untrained_leaves.h>
#include <tutti/train/reporting/metrics.h>
#include <tutti/train/trainer.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

class GradientScaler;
class GradientSync;
class Step;
enum class Overlap : std::uint8_t;

/// Scalars by name, of one batch. Those with "loss" in their names are means over its examples; their sum is what is
/// minimised. The others are reported only.
using Losses = std::vector<std::pair<std::string, Tensor>>;

struct EagerOptions {
  std::int64_t accumulation = 1;                   ///< batches to an update; the rest at the end of an epoch is one too
  std::optional<double> max_norm = std::nullopt;   ///< clips the gradients' joint norm before each update
  std::optional<double> max_value = std::nullopt;  ///< clips the gradients' elements before each update
  DType autocast = DType::f32;                     ///< type of forward: bf16, f16, or f32 for no autocast
  GradientScaler* scaler = nullptr;                ///< scaler for f16; not owned
  /// A second optimizer, which steps with the first: a SparseOptimizer for the model's hash tables; not owned.
  Optimizer* sparse_optimizer = nullptr;
  /// Reductions over a group, of which `device` is this trainer's; not owned. The model is one of its replicas.
  GradientSync* sync = nullptr;
  Device device = cpu();
  /// Every so many steps, and at the end, the means of what the steps returned since are read from the device, averaged
  /// over the group and stored; 0: never. The same on all devices, which then make equally many steps.
  std::int64_t metrics_every = 1;
  /// Evaluations are of the whole group: all devices evaluate at the same place, each on its share.
  bool evaluate_together = false;
  /// A batch without examples passes forward and backward, too, with losses of 0: the model takes part in collectives
  /// there, which the group's other devices wait for. Always so where it has synchronised batch norms.
  bool pass_empty_batches = false;
  std::string prefix = {};  ///< prefix of the metrics' names
  /// The loss may depend on leaves that require a gradient and are neither the model's nor the optimizer's, such as
  /// another network's: else they are an Error in the second step, since one may be a member that `visit` forgot.
  bool allow_other_leaves = false;
  /// A step takes all batches of an update: iterations count updates. Of the step's batches, losses are averaged and
  /// other values summed. Default: each batch is a step.
  bool whole_updates = false;
};

namespace detail {
/// True if a result of this name is a mean over its batch that is minimised.
inline bool is_loss(std::string_view name) { return name.find("loss") != std::string_view::npos; }
}  // namespace detail

/// A step as one writes it by hand: forward, backward, and every `accumulation` batches clip, step, zero_grad.
/// Gradients are means over all examples of an update, however many batches and devices they came from and however
/// uneven those are. This is the part that does not depend on what a batch is; see EagerTrainer. How one batch passes
/// forward and backward may be another: see GraphTrainer. The storage's samples are the examples that were processed,
/// by weight and of all devices, counted with the update they belong to, also where the scaler skipped that.
class EagerTrainerBase : public Trainer {
 public:
  ~EagerTrainerBase() override;
  bool between_updates() const override { return pending_ == 0; }
  void settle() override;
  bool settled() const override { return on_its_way_ == nullptr; }
  /// Error with a group of several devices: see DataParallelLearner.
  void stop(std::string reason) override;
  std::int64_t updates() const noexcept { return updates_; }  ///< updates by this object, those the scaler skipped too
  /// The mean training loss, by examples, of the steps since the last call, over the whole group: all its devices call.
  /// Error with metrics_every 0.
  double take_mean_loss();
  /// Measurements that are in no metric yet, as text for a checkpoint, to be kept beside `state` with metrics_every
  /// above 1. Waits for the device.
  std::string measured() const;
  /// Goes on from the sum of several devices' texts; none: from nothing. DataError for another text; nothing is changed
  /// then.
  void load_measured(const std::vector<std::string>& texts) { prepare_measured(texts)(); }
  /// `load_measured` in two parts: all that can fail, and a function that does the rest.
  std::function<void()> prepare_measured(const std::vector<std::string>&);
  Module& model() noexcept { return model_; }
  Optimizer& optimizer() noexcept { return optimizer_; }
  const Optimizer& optimizer() const noexcept { return optimizer_; }
  const EagerOptions& options() const noexcept { return options_; }

 protected:
  EagerTrainerBase(Module&, Optimizer&, EagerOptions);

  void finish_updates() override;
  void finish_training() override;
  void failed(std::exception_ptr) override;
  void set_training(bool) override;
  /// Forward and backward of one batch: synchronised by the step, if there is one, else of `scale` times the loss.
  using Pass = std::function<Losses(Step*, double scale)>;

  /// One batch of the step, and its update if it is the last of one. `weight`: the batch's examples; 0: it has no loss,
  /// and its device only takes part, by `pass` where empty batches pass, too.
  void take_batch(double weight, const Pass& pass);
  bool passes_empty_batches() const noexcept { return passes_empty_batches_; }
  /// How many batches every device passes in a step, if empty ones do.
  std::size_t batches_of_step() const noexcept {
    return options_.whole_updates ? static_cast<std::size_t>(options_.accumulation) : 1;
  }
  Metrics end_step();  ///< ends the step after its batches; returns what it reports
  Losses pass_eagerly(const std::function<Losses()>& losses, Step*, double scale);
  Losses forward(const std::function<Losses()>& losses) const;
  Tensor minimised(const Losses&);  ///< their sum, as backward gets it
  Metrics evaluate_on(const std::function<Losses()>& losses);
  Metrics evaluated(Metrics means, const Metrics& weights) override;

 private:
  using Averages = std::map<std::string, RunningAverage, std::less<>>;
  struct Measured {
    Averages averages;    ///< averages of this device, since metrics were written
    RunningAverage loss;  ///< mean of this device, since take_mean_loss
  };
  using StepResults = std::vector<std::pair<Losses, double>>;  // results of a step's batches, with their weights

  Metrics group_means(const Averages&);
  Losses pass_weighted(double weight, const Pass& pass, bool last);
  void pass_empty(const Pass& pass, bool last);
  void update();
  void apply_gradients();
  void count_samples(double weight);
  void zero_grad();
  Overlap overlap() const;
  void keep(const Losses&, double weight);
  void add_unread(Measured&) const;
  void read_metrics();
  Metrics write_metrics();

  Module& model_;
  Optimizer& optimizer_;
  EagerOptions options_;
  bool passes_empty_batches_;
  std::vector<Tensor> parameters_;
  UntrainedLeaves untrained_leaves_;
  std::unique_ptr<Step> step_;        // the group's, while batches are accumulated
  std::unique_ptr<Step> on_its_way_;  // the last one, with double buffering: its gradients are used later
  std::int64_t pending_ = 0;          // batches accumulated
  double pending_weight_ = 0;
  bool was_training_ = true;         // the model, before the evaluation that runs
  StepResults results_;              // results of the step that runs
  std::vector<StepResults> unread_;  // results of steps before
  Measured measured_;                // all that was measured, but for unread_
  bool unwritten_ = false;           // a step was made, or loaded, since metrics were written: of all devices alike
  std::int64_t updates_ = 0;
};

/// Trains a model on a stream: ten lines make a loop.
///
///   EagerTrainer<Batch> trainer(model, optimizer, batches, [&](const Batch& batch) -> Losses {
///     return {{"loss", cross_entropy(model(batch.inputs), batch.targets)}};
///   });
///   trainer.register_hook(std::make_shared<PeriodicWriter>(...));
///   trainer.train({.epochs = 10});
///
/// Data, model and optimizer are not owned and outlive it. An item's `weight()` is its number of examples; without one
/// every item counts alike. A stream that is Windowed is read window by window, one for evaluation as a whole.
template <class Item> class EagerTrainer : public EagerTrainerBase {
 public:
  using LossFunction = std::function<Losses(const Item&)>;

  EagerTrainer(Module& model, Optimizer& optimizer, DataStream<Item>& data, LossFunction losses,
               EagerOptions options = {})
      : EagerTrainerBase(model, optimizer, std::move(options)),
        data_(data),
        windows_(dynamic_cast<Windowed*>(&data)),
        losses_(std::move(losses)) {
    if (!losses_) raise_message("[trainer] there is no loss function");
  }

  bool windowed() const noexcept { return windows_ != nullptr; }  ///< the training data

  /// Data of the step, from after_data to after_step: one item, with whole_updates all of an update, none on a device
  /// whose data are out. In an evaluation, its item.
  std::span<const Item> items() const {
    if (!evaluating()) return items_;
    return evaluation_item_ ? std::span<const Item>(&*evaluation_item_, 1) : std::span<const Item>();
  }

  /// Sets what `evaluate` runs over, from its beginning each time. `losses`: default, those of training.
  void set_evaluation(DataStream<Item>& data, LossFunction losses = {}) {
    if (&data == &data_) raise_message("[trainer] the evaluation data are the training stream: give it one of its own");
    evaluation_data_ = &data;
    evaluation_losses_ = std::move(losses);
  }
  bool has_evaluation_data() const override { return evaluation_data_ != nullptr; }

 protected:
  void start_epoch(std::int64_t epoch) override { data_.start_epoch(epoch); }
  NextWindow next_window() override {
    if (windows_ == nullptr) return Trainer::next_window();
    const std::int64_t before = windows_->window();
    const NextWindow next = windows_->next_window();
    // Resumed where a limit has ended the window, the stream stands in it still.
    return next == NextWindow::ready && windows_->window() == before ? windows_->next_window() : next;
  }
  bool next_data() override {
    items_.clear();
    if (windows_ != nullptr && windows_->window() < 0)
      return false;  // no windows at all, beside devices that have some
    if (options().whole_updates)
      with_next_items(data_, options().accumulation, [this](std::vector<Item>& items) { items_ = std::move(items); });
    else if (std::optional<Item> item = data_.next())
      items_.push_back(std::move(*item));
    if (passes_empty_batches() && !items_.empty()) empty_item_->learn(items_.front(), options().device);
    return !items_.empty();
  }
  Metrics run_step() override {
    for (const Item& item : items_) take_item(item, weight_of(item));
    if (passes_empty_batches())
      for (std::size_t i = items_.size(); i < batches_of_step(); ++i) take_item(empty_item(), 0);
    else if (items_.empty())
      take_batch(0, {});
    return end_step();
  }
  virtual Losses pass(const Item& item, Step* step, double scale) {
    return pass_eagerly([&] { return losses_(item); }, step, scale);
  }
  void start_evaluation() override {
    if (evaluation_data_ == nullptr) return Trainer::start_evaluation();
    evaluation_data_->start_epoch(0);
  }
  bool next_evaluation_data() override {
    evaluation_item_ = evaluation_data_->next();
    return evaluation_item_.has_value();
  }
  Metrics run_evaluation_step() override {
    const LossFunction& losses = evaluation_losses_ ? evaluation_losses_ : losses_;
    return evaluate_on([&] { return losses(*evaluation_item_); });
  }
  /// 0 without an item: a device whose data are out takes part in the others' steps.
  double data_weight() override {
    if (evaluating()) return evaluation_item_ ? weight_of(*evaluation_item_) : 0.0;
    double weight = 0;
    for (const Item& item : items_) weight += weight_of(item);
    return weight;
  }
  const LossFunction& losses() const noexcept { return losses_; }
  const DataStream<Item>* evaluation_data() const noexcept { return evaluation_data_; }  ///< null: none
  /// Takes an EmptyItem that a group's trainers share, which then learn from each other what an item without examples
  /// looks like.
  void share_empty_item(std::shared_ptr<EmptyItem<Item>> shared) { empty_item_ = std::move(shared); }

 private:
  void take_item(const Item& item, double weight) {
    take_batch(weight, [&](Step* step, double scale) { return pass(item, step, scale); });
  }
  Item empty_item() {
    if (!empty_item_->on(options().device)) learn_empty_item();
    if (std::optional<Item> item = empty_item_->on(options().device)) return std::move(*item);
    raise_message(
        "[trainer] " + to_string(options().device) +
        " has no data in a step in which the other devices wait for its forward: it needs an item without examples, by "
        "`Item without_examples(Device) const` of an item that it, or another device of its process, had");
  }
  // Learns from the first item of the data, which may have been before where training goes on.
  void learn_empty_item() {
    if (!HasEmptyItem<Item> || windows_ != nullptr) return;
    const std::string place = data_.position();
    std::optional<Item> first;
    try {
      data_.start_epoch(0);
      first = data_.next();
    } catch (...) {
      data_.seek(place);
      throw;
    }
    data_.seek(place);
    if (first) empty_item_->learn(*first, options().device);
  }
  static double weight_of(const Item& item) {
    if constexpr (requires { item.weight(); }) return item.weight();
    return 1;
  }

  DataStream<Item>& data_;
  Windowed* windows_;  // data_ as a stream of windows; null: it has none
  LossFunction losses_;
  DataStream<Item>* evaluation_data_ = nullptr;
  LossFunction evaluation_losses_;
  std::shared_ptr<EmptyItem<Item>> empty_item_ = std::make_shared<EmptyItem<Item>>();
  std::vector<Item> items_;              // items of the step
  std::optional<Item> evaluation_item_;  // item of an evaluation, which a hook may run within a step
};

}  // namespace tutti
