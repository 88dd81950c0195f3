// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/hooks/checkpointer.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/checkpoints/json_text.h>
#include <tutti/train/trainer.h>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <ranges>
#include <utility>

namespace tutti {

CheckpointProgress Checkpointer::progress() const {
  return {.step = trainer().iteration(), .epoch = trainer().epoch(), .window = trainer().window()};
}

// Whether one is due is the same on all devices: nothing else is asked.
void Checkpointer::save(CheckpointMoment moment, const CheckpointProgress& progress) {
  trainer().settle();
  const std::string purpose = fmt::format("a checkpoint at step {}", progress.step);
  if (sync_ != nullptr) sync_->barrier(device_, purpose);
  if (gather_) gather_();
  if (saves_ && folder_.due(moment, progress))
    folder_.save_if_due(moment, parts_, progress);
  else if (saves_)
    folder_.save(parts_, progress);
  if (sync_ != nullptr) sync_->barrier(device_, purpose);
}

void Checkpointer::before_train() { owed_ = false; }

void Checkpointer::after_step(const StepReport& report) {
  if (!report.training) return;
  owed_ = owed_ || folder_.due(CheckpointMoment::step, progress());
  if (!owed_ || !trainer().between_updates()) return;
  owed_ = false;
  save(CheckpointMoment::step, progress());
}

void Checkpointer::after_window() {
  if (trainer().evaluating() || !trainer().out_of_data() || !trainer().between_updates()) return;
  if (folder_.due(CheckpointMoment::window, progress())) save(CheckpointMoment::window, progress());
}

// What waits for an update has had it now.
void Checkpointer::after_epoch() {
  CheckpointProgress ended = progress();
  if (trainer().out_of_data()) ended = {.step = ended.step, .epoch = ended.epoch + 1, .window = 0};
  if (std::exchange(owed_, false)) return save(CheckpointMoment::step, ended);
  if (trainer().out_of_data() && folder_.due(CheckpointMoment::epoch, ended)) save(CheckpointMoment::epoch, ended);
}

void Checkpointer::end() {
  if (folder_.due(CheckpointMoment::end, progress())) save(CheckpointMoment::end, progress());
  if (saves_) folder_.wait();
  if (gather_) sync_->barrier(device_, "the last checkpoint");  // other processes hear of an error
}

void BestCheckpointer::after_evaluation(const Metrics& means) {
  const auto found = means.find(options_.metric);
  if (found == means.end())
    raise<Error>("[best checkpointer] the evaluation has no \"{}\": it gave {}", options_.metric,
                 fmt::join(std::views::keys(means), ", "));
  if (!trainer().between_updates())
    raise<Error>(
        "[best checkpointer] the evaluation at step {} is within an accumulation, whose gradients a checkpoint would "
        "lose: evaluate between updates",
        trainer().iteration());
  if (const auto others = parts_.beside_models(); !trainer().settled() && !others.empty())
    raise<Error>(
        "[best checkpointer] the gradients of step {} are on their way (Overlap::double_buffered), and a run that goes "
        "on from this checkpoint would miss them: give it the model alone, without {}",
        trainer().iteration(), fmt::join(others, ", "));
  const double value = found->second;
  if (!std::isfinite(value)) return;
  if (best_ && !(options_.smaller_is_better ? value < *best_ : value > *best_)) return;
  if (!trainer().writes()) {
    best_ = value;
    return;
  }
  folder_.wait();  // not to be skipped
  // In what is saved too: training that goes on from it must beat it.
  const auto before = std::exchange(best_, value);
  try {
    folder_.save(parts_, {.step = trainer().iteration(), .epoch = trainer().epoch(), .window = trainer().window()});
  } catch (...) {
    best_ = before;
    throw;
  }
}

std::string BestCheckpointer::state() const { return best_ ? write_json(nlohmann::json(*best_)) : "null"; }

void BestCheckpointer::load_state(const std::string& text) try {
  const auto json = parse_json<nlohmann::json>(text);
  best_ = json.is_null() ? std::nullopt : std::optional(json.get<double>());
} catch (const nlohmann::json::exception& error) {
  raise<DataError>("[best checkpointer] this is no state of it: {}", error.what());
}

}  // namespace tutti
