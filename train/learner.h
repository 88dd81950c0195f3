// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/data/stream_positions.h>
#include <tutti/train/device_texts.h>
#include <tutti/train/device_threads.h>
#include <tutti/train/eager_trainer.h>
#include <tutti/train/hooks/checkpointer.h>
#include <tutti/train/step_agreement.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

struct LearnerOptions {
  std::vector<Device> devices = {cpu()};  ///< the first is the main device
  SyncOptions sync = {};
  EagerOptions step =
      {};  ///< of every device; `sync`, `device` and `evaluate_together` are set by the learner, a scaler is refused
  enum class Evaluation : std::uint8_t {
    /// On the main device, on all of its evaluation data. The others wait, at most for SyncOptions::fail_after.
    main,
    all,  ///< on every device, each on its share; the means are those of all examples
  };
  Evaluation evaluation = Evaluation::main;
};

/// The trainer of one device of a learner. Steps are taken together: one whose data are out takes part without examples
/// until all are out, and all stop before the same step.
template <class Item> class LearnerTrainer : public EagerTrainer<Item> {
 public:
  LearnerTrainer(Module& replica, Optimizer& optimizer, DataStream<Item>& data,
                 typename EagerTrainer<Item>::LossFunction losses, EagerOptions options, StepAgreement& agreement,
                 std::size_t index)
      : EagerTrainer<Item>(replica, optimizer, data, std::move(losses), std::move(options)),
        agreement_(agreement),
        index_(index) {}

  void stop(std::string reason) override { agreement_.request_stop(std::move(reason)); }

 protected:
  std::optional<std::string> stops_before_step() override {
    return agreement_.stops_before(index_, this->iteration(), this->between_updates());
  }
  bool next_data() override { return agreement_.any_data(index_, EagerTrainer<Item>::next_data()); }
  double data_weight() override { return this->has_item() ? EagerTrainer<Item>::data_weight() : 0.0; }
  bool evaluates() const override { return index_ == 0 || this->options().evaluate_together; }
  void start_evaluation() override {
    set_activity("evaluating");
    EagerTrainer<Item>::start_evaluation();
  }
  Metrics evaluated(Metrics means, double weight) override {
    set_activity("");
    return EagerTrainer<Item>::evaluated(std::move(means), weight);
  }
  void failed(std::exception_ptr error) override {
    agreement_.fail(error);
    EagerTrainer<Item>::failed(std::move(error));
  }

 private:
  void set_activity(const char* activity) { this->options().sync->busy(this->options().device, activity); }

  StepAgreement& agreement_;
  std::size_t index_;
};

/// Trains replicas of a model on several devices, each driven by a thread with a trainer of its own, gradients averaged
/// by examples while backward runs. Devices may have different numbers of batches: none waits for ever, and nothing is
/// dropped or repeated.
///
///   DataParallelLearner<Network, Batch> learner(network, {
///       .optimizer = [](Network& replica) { return std::make_unique<AdamW>(replica.parameters(), 1e-3); },
///       .data = [&](std::size_t device) { return batches.stream(device); },
///       .losses = [](Network& replica, const Batch& b) -> Losses {
///         return {{"loss", cross_entropy(replica.forward(b.inputs), b.targets)}};
///       }}, {.devices = devices_of("cpu", 4)});
///   learner.main().register_hook(...);
///   learner.train({.epochs = 10});
///
/// `losses` and `evaluation_losses` are called on the devices' threads, at the same time, the other functions by the
/// constructor. The learner is used by one thread, but for `stop`.
template <class M, class Item> class DataParallelLearner {
 public:
  struct Parts {
    std::function<std::unique_ptr<Optimizer>(M& replica)> optimizer;
    std::function<std::unique_ptr<DataStream<Item>>(std::size_t device)> data;
    std::function<Losses(M& replica, const Item&)> losses;
    std::function<std::unique_ptr<DataStream<Item>>(std::size_t device)> evaluation_data{};
    std::function<Losses(M& replica, const Item&)> evaluation_losses{};  ///< default: those of training
  };

  DataParallelLearner(const M& model, Parts parts, LearnerOptions options)
      : options_(std::move(options)),
        parts_(std::move(parts)),
        agreement_(options_.devices.size(), options_.sync.fail_after),
        sync_(options_.devices, options_.sync),
        replicas_(sync_.replicate(model)) {
    if (options_.step.scaler != nullptr)
      raise<Error>("[learner] one GradientScaler cannot serve {} devices", options_.devices.size());
    for (std::size_t d = 0; d < options_.devices.size(); ++d) add_device(d);
  }

  /// Continues from where the trainers stand. If a device fails, the others' training ends too, and the first cause is
  /// thrown.
  void train(const TrainingLimits& limits) { train_and_evaluate(limits, {}); }
  void train_and_evaluate(const TrainingLimits& limits, const EvaluationPlan& plan) {
    on_trainers([&](std::size_t, EagerTrainerBase& trainer) { trainer.train_and_evaluate(limits, plan); });
  }
  /// Calls `work(device, trainer)` on a thread for each device, and waits. The first cause of a failure is thrown.
  void on_trainers(const std::function<void(std::size_t, EagerTrainerBase&)>& work) {
    on_first_trainers(devices(), work);
  }
  Metrics evaluate(std::int64_t steps = kUnlimited) {
    Metrics means;
    const std::size_t count = options_.evaluation == LearnerOptions::Evaluation::all ? devices() : 1;
    on_first_trainers(count, [&](std::size_t d, EagerTrainerBase& trainer) {
      Metrics own = trainer.evaluate(steps);
      if (d == 0) means = std::move(own);
    });
    return means;
  }
  /// All that the run keeps: "model", "optimizer" and "trainer", saved from the main device and loaded into all, and
  /// "data" and "measured", each device's own. Any number of devices loads them, unless the data's positions differ
  /// between the devices (those of a BatchStream do not). What else it has (a gradient compression, hooks with a state)
  /// is added by hand.
  void add_parts(CheckpointParts& parts) {
    std::vector<M*> models;
    std::vector<Optimizer*> optimizers;
    for (std::size_t d = 0; d < devices(); ++d) {
      models.push_back(&replicas_[d]);
      optimizers.push_back(optimizers_[d].get());
    }
    parts.add("model", std::move(models));
    parts.add("optimizer", std::move(optimizers));
    parts.add(
        "data", [this] { return save_positions(data_); },
        [this](const std::string& text) { load_positions(data_, text); });
    parts.add(
        "measured", [this] { return measured(); }, [this](const std::string& text) { load_measured(text); });
    parts.add(
        "trainer", [this] { return main().state(); },
        [this](const std::string& text) {
          for (const auto& trainer : trainers_) trainer->load_state(text);
        });
  }
  /// Checkpoints when the folder's options say so, while all devices wait. Hooks that are registered later come
  /// after it.
  void save_into(CheckpointFolder& folder, const CheckpointParts& parts) {
    for (std::size_t d = 0; d < devices(); ++d)
      trainers_[d]->register_hook(std::make_shared<Checkpointer>(folder, parts, sync_, options_.devices[d], d == 0));
  }
  /// All devices end training before the same step. Any thread.
  void stop(std::string reason) { agreement_.request_stop(std::move(reason)); }

  std::size_t devices() const noexcept { return options_.devices.size(); }
  /// Hooks are registered with the trainers; those that report, evaluate or save with the main device's.
  LearnerTrainer<Item>& trainer(std::size_t device) { return *trainers_.at(device); }
  LearnerTrainer<Item>& main() { return *trainers_.front(); }
  M& replica(std::size_t device) { return replicas_.at(device); }
  M& model() { return replicas_.front(); }  ///< the main device's: between runs all are the same
  Optimizer& optimizer(std::size_t device) { return *optimizers_.at(device); }
  DataStream<Item>& data(std::size_t device) { return *data_.at(device); }
  GradientSync& sync() noexcept { return sync_; }

 private:
  using Evaluation = LearnerOptions::Evaluation;

  void on_first_trainers(std::size_t count, const std::function<void(std::size_t, EagerTrainerBase&)>& work) {
    std::exception_ptr error;
    try {
      on_every_device(count, [&](std::size_t d) {
        try {
          work(d, *trainers_[d]);
        } catch (...) {
          tell(d, std::current_exception());
          throw;
        }
      });
    } catch (...) {
      const std::exception_ptr first = agreement_.first_error();
      error = first && !is_echo(first) ? first : std::current_exception();
    }
    agreement_.reset();  // what was asked for since it began was for this run
    if (error) std::rethrow_exception(error);
  }
  // The others wait, in the group or in the agreement.
  void tell(std::size_t d, const std::exception_ptr& error) noexcept {
    agreement_.fail(error);
    try {
      sync_.busy(options_.devices[d], "");
      sync_.fail(options_.devices[d], error);
    } catch (...) {  // the group has failed before
    }
  }

  std::string measured() const {
    std::vector<std::string> texts;
    for (const auto& trainer : trainers_) texts.push_back(trainer->measured());
    return join_texts(texts);
  }
  // By another number of devices it counts for the main one: means are of the group.
  void load_measured(const std::string& text) {
    const std::vector<std::string> texts = split_texts(text);
    trainers_[0]->load_measured(texts);  // refuses it before anything has changed
    for (std::size_t d = 0; d < devices(); ++d)
      if (texts.size() == devices())
        trainers_[d]->load_measured({texts[d]});
      else if (d > 0)
        trainers_[d]->load_measured({});
  }

  void add_device(std::size_t d) {
    EagerOptions step = options_.step;
    step.sync = &sync_;
    step.device = options_.devices[d];
    step.evaluate_together = options_.evaluation == Evaluation::all;
    M& replica = replicas_[d];
    optimizers_.push_back(parts_.optimizer(replica));
    sync_.attach(options_.devices[d], *optimizers_.back());
    data_.push_back(parts_.data(d));
    trainers_.push_back(std::make_unique<LearnerTrainer<Item>>(
        replica, *optimizers_.back(), *data_.back(),
        [this, &replica](const Item& item) { return parts_.losses(replica, item); }, std::move(step), agreement_, d));
    if (!parts_.evaluation_data || (d > 0 && options_.evaluation == Evaluation::main)) return;
    evaluation_data_.push_back(parts_.evaluation_data(d));
    typename EagerTrainer<Item>::LossFunction losses;
    if (parts_.evaluation_losses)
      losses = [this, &replica](const Item& item) { return parts_.evaluation_losses(replica, item); };
    trainers_.back()->set_evaluation(*evaluation_data_.back(), std::move(losses));
  }

  LearnerOptions options_;
  Parts parts_;
  StepAgreement agreement_;
  GradientSync sync_;
  std::vector<M> replicas_;
  std::vector<std::unique_ptr<Optimizer>> optimizers_;
  std::vector<std::unique_ptr<DataStream<Item>>> data_;
  std::vector<std::unique_ptr<DataStream<Item>>> evaluation_data_;
  std::vector<std::unique_ptr<LearnerTrainer<Item>>> trainers_;
};

}  // namespace tutti
