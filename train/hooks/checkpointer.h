// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/train/checkpoints/checkpoint_folder.h>
#include <tutti/train/hook.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace tutti {

class GradientSync;

/// Saves checkpoints when the folder's options say so: after steps, windows and epochs, and when training came to its
/// end. A step after which gradients are still accumulated waits for the update. Folder and parts are not owned; the
/// trainer's `state` belongs into the parts, and has the hooks' own. Register it after hooks whose state or values it
/// is to keep.
class Checkpointer final : public Hook {
 public:
  Checkpointer(CheckpointFolder& folder, const CheckpointParts& parts) : folder_(folder), parts_(parts) {}
  /// Serves one of several devices, whose trainers all have one: they wait for each other while the one that `saves`
  /// copies the parts. `gather`, with several processes: called on every device before that, while none makes a step,
  /// to get what other processes keep; they wait for the last checkpoint's end, too.
  Checkpointer(CheckpointFolder& folder, const CheckpointParts& parts, GradientSync& sync, Device device, bool saves,
               std::function<void()> gather = {})
      : folder_(folder), parts_(parts), sync_(&sync), device_(device), saves_(saves), gather_(std::move(gather)) {}

  void before_train() override;
  void after_step(const StepReport&) override;
  void after_window() override;
  void after_epoch() override;
  void end() override;  ///< waits until the last checkpoint is on the disk

 private:
  void save(CheckpointMoment, const CheckpointProgress&);
  CheckpointProgress progress() const;

  CheckpointFolder& folder_;
  const CheckpointParts& parts_;
  GradientSync* sync_ = nullptr;
  Device device_{};
  bool saves_ = true;
  std::function<void()> gather_;
  bool owed_ = false;  // a step's checkpoint waits for the update
};

struct BestCheckpointerOptions {
  std::string metric = "loss";  ///< name among the evaluations' means
  bool smaller_is_better = true;
};

/// Saves into a folder of its own, which keeps one, after each evaluation that is the best so far: just the parameters
/// that were evaluated; where the trainer does not write (Trainer::writes) it only counts. NaN is never the best. For a
/// trainer alone, or the main device's with parts that no other device touches: its model, say. With
/// Overlap::double_buffered the model alone: gradients that are on their way are in no part.
class BestCheckpointer final : public Hook {
 public:
  BestCheckpointer(CheckpointFolder& folder, const CheckpointParts& parts, BestCheckpointerOptions options = {})
      : folder_(folder), parts_(parts), options_(std::move(options)) {}

  /// Error if the metric is not among the means, and within an accumulation, whose gradients are in no part: a hook
  /// that evaluates by itself does so where Trainer::between_updates. Error for parts beside models while gradients are
  /// on their way.
  void after_evaluation(const Metrics&) override;
  void end() override { folder_.wait(); }

  std::optional<double> best() const noexcept { return best_; }
  /// Contains the metric's name: checkpoints of the trainer's state keep best().
  std::string state_name() const override { return "best checkpointer/" + options_.metric; }
  std::string state() const override;
  void load_state(const std::string&) override;  ///< DataError for another text; nothing is changed then

 private:
  CheckpointFolder& folder_;
  const CheckpointParts& parts_;
  BestCheckpointerOptions options_;
  std::optional<double> best_;
};

}  // namespace tutti
