// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>
#include <tutti/distributed/batch_norm_sync.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/optim/gradient_scaler.h>
#include <tutti/optim/sparse_optimizer.h>
#include <tutti/train/data/positions/stream_positions.h>
#include <tutti/train/device_threads.h>
#include <tutti/train/eager_trainer.h>
#include <tutti/train/hooks/checkpointer.h>
#include <tutti/train/replicas/compression_states.h>
#include <tutti/train/replicas/group_agreement.h>
#include <tutti/train/replicas/joined_texts.h>
#include <tutti/train/replicas/learner_trainer.h>
#include <tutti/train/replicas/process_texts.h>
#include <tutti/train/replicas/together.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

struct LearnerOptions {
  /// This process's devices, of which the first is its main device, and how they synchronise; those of the group where
  /// the learner is given one.
  std::vector<Device> devices = {cpu()};
  SyncOptions sync = {};
  /// Options of every device. `sync`, `device`, `evaluate_together`, `sparse_optimizer` and `scaler` are the learner's
  /// to set.
  EagerOptions step = {};
  std::optional<GradientScalerOptions> scaling = std::nullopt;  ///< gives every device a scaler for f16, made alike
  /// Makes every BatchNorm normalise by the batch of all devices, in training. `losses` is called on devices without
  /// data, too, with a batch without examples.
  bool synchronize_batch_norms = false;
  enum class Evaluation : std::uint8_t {
    /// Evaluates on the main device, of several processes the first one's, on all of its evaluation data. The others
    /// wait, at most for SyncOptions::fail_after; each process's main trainer then has the means, for its hooks too.
    main,
    all,  ///< evaluates on every device, each on its share; the means, the same everywhere, are those of all examples
  };
  Evaluation evaluation = Evaluation::main;
};

/// Trains replicas of a model on several devices, each driven by a thread with a trainer of its own, gradients averaged
/// by examples while backward runs. Devices may have different numbers of batches: none waits for ever, and nothing is
/// dropped or repeated.
///
///   DataParallelLearner<Network, Batch> learner(network, {
///       .optimizer = [](Network& replica) { return std::make_unique<AdamW>(replica.parameters(), 1e-3); },
///       .data = [&](std::size_t device) { return batches.stream(device); },
///       .losses = [](Network& replica, const Batch& b) -> Losses {
///         return {{"loss", cross_entropy(replica(b.inputs), b.targets)}};
///       }}, {.devices = devices_of("cpu", 4)});
///   learner.main().register_hook(...);
///   learner.train({.epochs = 10});
///
/// A BatchStream for the training is made for all devices, one for an evaluation on the main device for that alone;
/// other streams may be each device's own.
///
/// Several processes train together when each gives its learner the GradientSync of its ProcessGroup, and BatchStream
/// that group's `world`. `device` in Parts counts this process's. All processes make the same calls. Training ends on
/// all before the same step; metrics are the same on all; the first process writes (`writes`). Before the learner goes,
/// its devices leave the group.
///
/// `losses` and `evaluation_losses` are called on the devices' threads, at the same time, the other functions by the
/// constructor. The learner is used by one thread, but for `stop`. With GraphTrainer as the third argument, steps are
/// captured and replayed.
template <class M, class Item, template <class> class TrainerOf = EagerTrainer> class DataParallelLearner {
 public:
  struct Parts {
    std::function<std::unique_ptr<Optimizer>(M& replica)> optimizer;
    std::function<std::unique_ptr<SparseOptimizer>(M& replica)> sparse_optimizer{};  ///< optimizer of its hash tables
    std::function<std::unique_ptr<DataStream<Item>>(std::size_t device)> data;
    std::function<Losses(M& replica, const Item&)> losses;
    std::function<std::unique_ptr<DataStream<Item>>(std::size_t device)> evaluation_data{};
    std::function<Losses(M& replica, const Item&)> evaluation_losses{};  ///< default: those of training
  };

  /// Throws Error naming the part for one that is not set, or makes nothing, and for data that are divided among
  /// another number of devices.
  DataParallelLearner(const M& model, Parts parts, LearnerOptions options = {})
      : DataParallelLearner(nullptr, model, std::move(parts), std::move(options)) {}
  /// Trains in a group that was made for it alone, of several processes or of one; not owned.
  DataParallelLearner(GradientSync& group, const M& model, Parts parts, LearnerOptions options = {})
      : DataParallelLearner(&group, model, std::move(parts), std::move(options)) {}
  DataParallelLearner(const DataParallelLearner&) = delete;
  DataParallelLearner& operator=(const DataParallelLearner&) = delete;
  ~DataParallelLearner() {
    if (world_.processes == 1 || std::uncaught_exceptions() > exceptions_) return;
    for (const Device device : options_.devices) try {
        sync_.leave(device);
      } catch (...) {  // the group has failed: everyone knows
      }
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
  /// The means, on every process, whose main trainers store them and call their hooks.
  Metrics evaluate(std::int64_t steps = kUnlimited) {
    Metrics means;
    const bool all = options_.evaluation == Evaluation::all;
    const std::size_t on_main = writes() ? 1 : 0;
    on_first_trainers(all ? devices() : on_main, [&](std::size_t d, EagerTrainerBase& trainer) {
      Metrics own = trainer.evaluate(steps);
      if (d == 0) means = std::move(own);
    });
    if (all || world_.processes == 1) return means;
    means = first_of_processes(sync_, means);
    if (!writes())
      on_first_trainers(1, [&](std::size_t, EagerTrainerBase& trainer) { trainer.take_evaluation(means); });
    return means;
  }
  /// All that the run keeps: "model", "optimizer", "trainer" and, where there are, "sparse_optimizer" and "scaler",
  /// saved from the main device and loaded into all, "data" and "measured", each device's own, and "compression", what
  /// SyncOptions::compression keeps in all processes. The main trainer's hooks that have a state are in "trainer". Any
  /// number of devices, in any number of processes, loads them, unless the data's positions differ between the devices
  /// (those of a BatchStream do not), or there is a compression.
  void add_parts(CheckpointParts& parts) {
    if (world_.processes == 1)
      parts.add("model", modules());
    else
      parts.add("model", shared_model_part());
    parts.add("optimizer", pointers<Optimizer>(optimizers_));
    if (!sparse_optimizers_.empty()) parts.add("sparse_optimizer", pointers<Optimizer>(sparse_optimizers_));
    if (!scalers_.empty()) parts.add("scaler", pointers<GradientScaler>(scalers_));
    parts.add("data", {[this] {
                         return PartState{{}, of_all(kPositions, save_positions(data_))};
                       },
                       [this](const PartState& state) { return prepare_positions(state.text); }});
    parts.add("measured", {[this] {
                             return PartState{{}, of_all(kMeasured, measured())};
                           },
                           [this](const PartState& state) { return prepare_measured(state.text); }});
    parts.add("trainer", pointers<Trainer>(trainers_));
    if (options_.sync.compression && world_.processes == 1) parts.add("compression", *options_.sync.compression);
    if (options_.sync.compression && world_.processes > 1) parts.add("compression", shared_compression_part());
  }
  /// Checkpoints when the folder's options say so, while all devices wait; of several processes, the first one writes.
  /// Hooks that are registered later come after it.
  void save_into(CheckpointFolder& folder, const CheckpointParts& parts) {
    for (std::size_t d = 0; d < devices(); ++d) {
      const Device device = options_.devices[d];
      std::function<void()> gather;
      if (world_.processes > 1) gather = [this, d] { gather_parts(d); };
      trainers_[d]->add_settings(settings_of_folder(folder.options()));
      trainers_[d]->register_hook(
          std::make_shared<Checkpointer>(folder, parts, sync_, device, writes() && d == 0, std::move(gather)));
    }
  }
  /// Gets from the other processes what only they know of this learner's parts, for the one that saves them by itself,
  /// between two runs; all processes call it. `save_into` needs no such call.
  void gather_parts() {
    if (world_.processes == 1) return;
    texts_.gather(sync_, own_texts(), main().iteration());
    if (options_.sync.compression) compressions_.gather(sync_, *options_.sync.compression, main().iteration());
  }
  /// The same, a collective on the thread of each device, while none makes a step.
  void gather_parts(std::size_t device) {
    texts_.gather(sync_, options_.devices[device], device == 0 ? own_texts() : std::vector<std::string>(),
                  main().iteration());
    if (const auto& own = options_.sync.compression)
      compressions_.gather(sync_, options_.devices[device], device == 0 ? own.get() : nullptr, main().iteration());
  }
  /// CheckpointFolder::load_newest; of several processes, which all call it, the first one reads its folder and sends
  /// the others what they load. DataError on all, naming the ranks that failed, if one has; none has changed then.
  std::optional<LoadedCheckpoint> load_newest(CheckpointFolder& folder, const CheckpointParts& parts) {
    return load_newest_together(sync_, folder, parts);
  }
  /// CheckpointFolder::load in the same way, of the path that the first process gives.
  LoadedCheckpoint load(CheckpointFolder& folder, const std::string& path, const CheckpointParts& parts) {
    return load_together(sync_, folder, path, parts);
  }
  /// All devices end training before the same step. Any thread.
  void stop(std::string reason) { agreement_->request_stop(std::move(reason)); }

  std::size_t devices() const noexcept { return options_.devices.size(); }  ///< this process's
  const WorldShare& world() const noexcept { return world_; }               ///< the devices of all processes
  /// True in the first process, which writes files and logs for all, and where there is no other.
  bool writes() const noexcept { return world_.first == 0; }
  /// Hooks are registered with the trainers; those that report, evaluate or save with the main device's.
  LearnerTrainer<Item, TrainerOf>& trainer(std::size_t device) { return *trainers_.at(device); }
  LearnerTrainer<Item, TrainerOf>& main() { return *trainers_.front(); }
  M& replica(std::size_t device) { return replicas_.at(device); }
  M& model() { return replicas_.front(); }  ///< the main device's: between runs all are the same
  Optimizer& optimizer(std::size_t device) { return *optimizers_.at(device); }
  /// Sparse optimizers, one for each device; none without Parts::sparse_optimizer.
  std::vector<SparseOptimizer*> sparse_optimizers() const { return pointers<SparseOptimizer>(sparse_optimizers_); }
  DataStream<Item>& data(std::size_t device) { return *data_.at(device); }
  GradientSync& sync() noexcept { return sync_; }

 private:
  using Evaluation = LearnerOptions::Evaluation;
  enum OwnText : std::size_t { kRandom, kPositions, kMeasured };  // texts of parts that each process knows alone

  DataParallelLearner(GradientSync* group, const M& model, Parts parts, LearnerOptions options)
      : options_(of_group(std::move(options), group)),
        parts_(std::move(parts)),
        own_sync_(group != nullptr ? nullptr : std::make_unique<GradientSync>(options_.devices, options_.sync)),
        sync_(group != nullptr ? *group : *own_sync_),
        world_(sync_.world()),
        agreement_(agreement_of(sync_)),
        replicas_(sync_.replicate(model)) {
    if (!parts_.optimizer) raise_message("[learner] Parts::optimizer is not set");
    if (!parts_.data) raise_message("[learner] Parts::data is not set");
    if (!parts_.losses) raise_message("[learner] Parts::losses is not set");
    if (options_.step.scaler != nullptr)
      raise_message("[learner] one GradientScaler cannot serve " + std::to_string(devices()) +
                    " devices: give LearnerOptions::scaling");
    if (options_.step.sparse_optimizer != nullptr)
      raise_message("[learner] one optimizer cannot serve " + std::to_string(devices()) +
                    " devices: give Parts::sparse_optimizer");
    if (options_.synchronize_batch_norms)
      for (M& replica : replicas_) tutti::synchronize_batch_norms(replica, sync_);
    for (std::size_t d = 0; d < options_.devices.size(); ++d) add_device(d);
  }
  static LearnerOptions of_group(LearnerOptions options, GradientSync* group) {
    if (group != nullptr) {
      options.devices = group->devices();
      options.sync = group->server().options();
    }
    return options;
  }
  static std::unique_ptr<StepAgreement> agreement_of(GradientSync& sync) {
    if (sync.world().processes > 1) return std::make_unique<GroupAgreement>(sync);
    return std::make_unique<StepAgreement>(sync.devices(), waits_of(sync.server()));
  }

  // Warnings go the group's way, where they may take their time and harm nobody.
  static SyncOptions waits_of(DistributedSyncServer& server) {
    SyncOptions waits = server.options();
    waits.warn = [&server](const std::string& text) { server.tell(text); };
    return waits;
  }

  template <class T, class Owned> static std::vector<T*> pointers(const std::vector<std::unique_ptr<Owned>>& owned) {
    std::vector<T*> all;
    for (const auto& each : owned) all.push_back(each.get());
    return all;
  }
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
      const std::exception_ptr first = agreement_->first_error();
      error = first && !is_echo(first) ? first : std::current_exception();
    }
    agreement_->reset();  // drops what was asked for since the run began, which was for this run
    if (error) std::rethrow_exception(error);
  }
  // The others wait, in the group or in the agreement.
  void tell(std::size_t d, const std::exception_ptr& error) noexcept {
    agreement_->fail(d, error);
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
  // Texts of another number of devices count for the main one: means are of the group.
  Install prepare_measured(const std::string& text) {
    std::vector<std::vector<std::string>> texts(world_.devices);
    const std::vector<std::string> all = split_texts(text);
    for (std::size_t i = 0; i < all.size(); ++i) texts[all.size() == world_.devices ? i : 0].push_back(all[i]);
    std::vector<Install> loads;
    for (std::size_t d = 0; d < devices(); ++d)
      loads.push_back(trainers_[d]->prepare_measured(texts[world_.first + d]));
    return in_order(std::move(loads));
  }
  Install prepare_positions(const std::string& text) {
    const std::vector<std::string> all = split_positions(text, world_.devices);
    const std::string own = join_texts(std::span(all).subspan(world_.first, devices()));
    return prepare_text(save_positions(data_), own, [this](const std::string& t) { load_positions(data_, t); });
  }

  std::vector<Module*> modules() {
    std::vector<Module*> modules;
    for (M& replica : replicas_) modules.push_back(&replica);
    return modules;
  }
  std::vector<std::string> own_texts() { return {random_text(modules()), save_positions(data_), measured()}; }
  // Lists of all processes' texts as one; this process's where there is no other.
  std::string of_all(OwnText which, std::string own) {
    return world_.processes == 1 ? own : concatenated_texts(texts_.of(which, main().iteration(), own));
  }
  CheckpointParts::Part shared_model_part() {
    const auto save = [this] {
      PartState state = part_state(modules());
      state.text = joined_random_texts(texts_.of(kRandom, main().iteration(), random_text(modules())));
      return state;
    };
    return {save, [this](const PartState& state) { return prepare_part(modules(), state); }, true};
  }

  CheckpointParts::Part shared_compression_part() {
    GradientCompression& own = *options_.sync.compression;
    return {[this, &own] {
              return PartState{compressions_.all(own, main().iteration()), {}};
            },
            [&own](const PartState& state) { return prepare_part(own, state); }};
  }

  /// Object that a function of `parts_` has made; Error naming the part for null.
  template <class T> static std::unique_ptr<T> made(const char* part, std::unique_ptr<T> object, std::size_t d) {
    if (object == nullptr)
      raise_message("[learner] Parts::" + std::string(part) + " made nothing for device " + std::to_string(d));
    return object;
  }

  void add_device(std::size_t d) {
    EagerOptions step = options_.step;
    step.sync = &sync_;
    step.device = options_.devices[d];
    step.evaluate_together = options_.evaluation == Evaluation::all;
    M& replica = replicas_[d];
    optimizers_.push_back(made("optimizer", parts_.optimizer(replica), d));
    sync_.attach(options_.devices[d], *optimizers_.back());
    if (parts_.sparse_optimizer) {
      sparse_optimizers_.push_back(made("sparse_optimizer", parts_.sparse_optimizer(replica), d));
      sync_.attach(options_.devices[d], *sparse_optimizers_.back());
      step.sparse_optimizer = sparse_optimizers_.back().get();
    }
    if (options_.scaling) {
      scalers_.push_back(std::make_unique<GradientScaler>(*options_.scaling));
      step.scaler = scalers_.back().get();
    }
    data_.push_back(made("data", parts_.data(d), d));
    const LearnerPlace place{d, world_};
    check_shares("training data", *data_.back(), world_.devices);
    trainers_.push_back(std::make_unique<LearnerTrainer<Item, TrainerOf>>(
        replica, *optimizers_.back(), *data_.back(),
        [this, &replica](const Item& item) { return parts_.losses(replica, item); }, std::move(step), *agreement_,
        place, empty_item_));
    if (!parts_.evaluation_data || (place.number() > 0 && options_.evaluation == Evaluation::main)) return;
    evaluation_data_.push_back(made("evaluation_data", parts_.evaluation_data(d), d));
    if (options_.evaluation == Evaluation::all)
      check_shares("evaluation data", *evaluation_data_.back(), world_.devices);
    else
      check_shares(
          "evaluation data", *evaluation_data_.back(), 1,
          "LearnerOptions::evaluation = Evaluation::all has all devices read theirs; for the main device alone "
          "give BatchOptions::devices that one, and no world");
    typename EagerTrainer<Item>::LossFunction losses;
    if (parts_.evaluation_losses)
      losses = [this, &replica](const Item& item) { return parts_.evaluation_losses(replica, item); };
    trainers_.back()->set_evaluation(*evaluation_data_.back(), std::move(losses));
  }

  LearnerOptions options_;
  Parts parts_;
  std::unique_ptr<GradientSync> own_sync_;  // null: the group was given
  GradientSync& sync_;
  WorldShare world_;
  std::unique_ptr<StepAgreement> agreement_;
  ProcessTexts texts_;              // texts of other processes, for a checkpoint
  CompressionStates compressions_;  // copies of what compressions keep in all processes
  std::shared_ptr<EmptyItem<Item>> empty_item_ = std::make_shared<EmptyItem<Item>>();  // shared by all devices
  std::vector<M> replicas_;
  std::vector<std::unique_ptr<Optimizer>> optimizers_;
  std::vector<std::unique_ptr<SparseOptimizer>> sparse_optimizers_;  // one for each device, or none
  std::vector<std::unique_ptr<GradientScaler>> scalers_;             // one for each device, or none
  std::vector<std::unique_ptr<DataStream<Item>>> data_;
  std::vector<std::unique_ptr<DataStream<Item>>> evaluation_data_;
  std::vector<std::unique_ptr<LearnerTrainer<Item, TrainerOf>>> trainers_;
  int exceptions_ = std::uncaught_exceptions();  // number of them when it was made
};

}  // namespace tutti
