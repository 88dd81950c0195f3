// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/exchange/arrays/named_arrays.h>
#include <tutti/train/checkpoints/part_state.h>
#include <tutti/train/eager_trainer.h>
#include <tutti/train/epochs.h>
#include <tutti/train/epochs/control.h>
#include <tutti/train/learner.h>

#include <functional>
#include <string>
#include <vector>

namespace tutti {

/// All that a driven training needs to go on, beside what each rank keeps itself: model, optimizer, data.
struct DrivingState {
  LoopState loop;
  std::string schedule;                ///< the EpochSchedule's
  std::vector<double> learning_rates;  ///< the optimizer's groups', before any factor; none: as they are at the start
  NamedArrays best_model;  ///< model of the best eligible epoch so far; none yet: empty. Never written again

  std::string to_text() const;         ///< leaves out the best model
  void load_text(const std::string&);  ///< keeps the best model. DataError for another text; nothing is changed then
};

/// All of it, the best model too: `parts.add("driving", state)`. DataError if the best model is missing or was left
/// out.
PartState part_state(const DrivingState&);
Install prepare_part(DrivingState&, const PartState&);

struct DrivingOptions {
  /// Options of the loop. The best model, with `eligible`, ends up in every rank's model. Without evaluation data,
  /// validation_frequency is 0.
  EpochsOptions epochs;
  std::function<void(const DrivingState&)> checkpoint = {};  ///< called after each epoch, on the driver
};

/// One epoch of training on this rank: the mean loss over the examples of all ranks. All ranks call it.
double one_epoch(EagerTrainerBase&);
/// One evaluation on this rank, without training: the mean loss over the evaluation examples of all ranks. All ranks
/// call it.
double one_evaluation(EagerTrainerBase&);

/// Drives a training over several ranks, of which each has a trainer with EagerOptions::sync and, where it validates,
/// `evaluate_together`; else Error: the driver's before the first step, a follower's at the first validation. Ranks
/// other than the driver call follow_distributed_training. Tensors travel through the group, and what is to be done
/// through `control`, a message before each epoch. Ranks have equally many batches, unless their trainers are a
/// learner's. An error of any rank ends all of them; `stop` of a learner ends the loop, and the epoch in which it came
/// does not count. After lamp's functions of these names.
LoopState drive_distributed_training(ControlRoot& control, EagerTrainerBase&, EpochSchedule&, const DrivingOptions&,
                                     DrivingState state = {});
/// `driver`: the device of the group from which the best model comes.
void follow_distributed_training(ControlFollower& control, EagerTrainerBase&, Device driver);

/// Drives the trainers of a learner, each on a thread. Where it validates, the learner has Evaluation::all.
template <class M, class Item, template <class> class TrainerOf>
LoopState local_data_parallel_training_loop(DataParallelLearner<M, Item, TrainerOf>& learner, EpochSchedule& schedule,
                                            const DrivingOptions& options, DrivingState state = {}) {
  LocalControl control(learner.devices() - 1);
  LoopState result;
  learner.on_trainers([&](std::size_t d, EagerTrainerBase& trainer) {
    if (d > 0) return follow_distributed_training(control.follower(d - 1), trainer, learner.main().options().device);
    try {
      result = drive_distributed_training(control.root(), trainer, schedule, options, std::move(state));
    } catch (...) {
      control.close();
      throw;
    }
  });
  return result;
}

}  // namespace tutti
