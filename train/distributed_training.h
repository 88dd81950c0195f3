// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/exchange/arrays/named_arrays.h>
#include <tutti/train/checkpoints/part_state.h>
#include <tutti/train/eager_trainer.h>
#include <tutti/train/epochs.h>
#include <tutti/train/epochs/control.h>
#include <tutti/train/epochs/group_control.h>
#include <tutti/train/learner.h>
#include <tutti/train/replicas/group_texts.h>

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
void follow_distributed_training(ControlFollower& control, EagerTrainerBase&, Member driver);

/// local_data_parallel_training_loop of several processes.
template <class M, class Item, template <class> class TrainerOf>
LoopState drive_processes(DataParallelLearner<M, Item, TrainerOf>& learner, EpochSchedule& schedule,
                          const DrivingOptions& options, DrivingState state) {
  GradientSync& group = learner.sync();
  const Member driver(
      0, parse_device(gather_from_processes(group, to_string(group.devices().front()), "the driver").front()));
  LoopState result;
  learner.on_trainers([&](std::size_t d, EagerTrainerBase& trainer) {
    const Device device = group.devices()[d];
    const auto gather = [&learner, d] { learner.gather_parts(d); };
    if (learner.world().first + d > 0) {
      GroupControlFollower control(group, device, gather);
      return follow_distributed_training(control, trainer, driver);
    }
    GroupControlRoot control(group, device);
    DrivingOptions driven = options;
    if (options.checkpoint)
      driven.checkpoint = [&](const DrivingState& now) {
        control.ask();
        gather();
        options.checkpoint(now);
      };
    result = drive_distributed_training(control, trainer, schedule, driven, std::move(state));
  });
  return LoopState::from_text(gather_from_processes(group, result.to_text(), "the driver's result").front());
}

/// Drives the trainers of a learner, each on a thread. Where it validates, the learner has Evaluation::all. Of several
/// processes, which all call it, the first one's main device drives, by its `schedule`, `options` and `state`; all get
/// the result. What other processes keep of the learner's parts is gathered before `checkpoint` is called there.
template <class M, class Item, template <class> class TrainerOf>
LoopState local_data_parallel_training_loop(DataParallelLearner<M, Item, TrainerOf>& learner, EpochSchedule& schedule,
                                            const DrivingOptions& options, DrivingState state = {}) {
  if (learner.world().processes > 1) return drive_processes(learner, schedule, options, std::move(state));
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
