// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/distributed_training.h>

#include <tutti/backend/process/error_text.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/checkpoints/json_text.h>

#include <nlohmann/json.hpp>

#include <exception>
#include <map>
#include <string_view>
#include <utility>

namespace tutti {
namespace {

NamedArrays copy_of(Module& model) {
  NamedArrays copy;
  for (const auto& [name, tensor] : model.named_members()) copy.emplace_back(name, tensor.array().copy());
  return copy;
}

/// By name: files of a checkpoint have their arrays in an order of their own.
using ArraysByName = std::map<std::string_view, Array>;

ArraysByName by_name(const NamedArrays& values) { return {values.begin(), values.end()}; }

void check_fits(Module& model, const NamedArrays& values) {
  ArraysByName unused = by_name(values);
  for (const auto& [name, tensor] : model.named_members()) {
    const auto found = unused.find(name);
    if (found == unused.end() || found->second.shape() != tensor.shape())
      raise<DataError>("[driving] the best model has no \"{}\" of shape {}", name, to_string(tensor.shape()));
    unused.erase(found);
  }
  if (!unused.empty())
    raise<DataError>("[driving] the best model has \"{}\", which the model has not", unused.begin()->first);
}

void put_into(Module& model, const NamedArrays& values) {
  const ArraysByName arrays = by_name(values);
  const NoGrad no_grad;
  for (const auto& [name, tensor] : model.named_members()) tensor.copy_(Tensor(arrays.at(name).to(tensor.device())));
}

// Every rank's model becomes the driver's.
void share_model(EagerTrainerBase& trainer, Member driver) {
  const EagerOptions& options = trainer.options();
  if (options.sync == nullptr) return;
  const NoGrad no_grad;
  for (const auto& [name, tensor] : trainer.model().named_members())
    tensor.copy_(options.sync->broadcast(options.device, tensor.detach(), driver).resolve());
}

void set_rates(Optimizer& optimizer, const std::vector<double>& rates) {
  for (std::size_t group = 0; group < rates.size(); ++group) optimizer.set_learning_rate(group, rates[group]);
}

std::vector<double> rates_of(const Optimizer& optimizer) {
  std::vector<double> rates;
  for (std::size_t group = 0; group < optimizer.group_count(); ++group) rates.push_back(optimizer.learning_rate(group));
  return rates;
}

void check_validates(const EagerTrainerBase& trainer) {
  const EagerOptions& options = trainer.options();
  if (options.sync != nullptr && !options.evaluate_together)
    raise<Error>(
        "[driving] the trainer of {} evaluates alone, and validation is over all ranks: give a learner "
        "LearnerOptions::Evaluation::all, or a trainer of your own EagerOptions::evaluate_together",
        to_string(options.device));
  if (!trainer.has_evaluation_data())
    raise<Error>("[driving] the trainer of {} has no evaluation data: give some, or validation_frequency 0",
                 to_string(options.device));
}

void check(const EagerTrainerBase& trainer) {
  const EagerOptions& options = trainer.options();
  if (options.sparse_optimizer != nullptr)
    raise<Error>(
        "[driving] the trainer of {} has hash tables: neither their learning rates nor the best model's rows "
        "would follow; a RecommenderTrainer trains them",
        to_string(options.device));
}

// So that the others' waits on the tensor channel end too.
void fail_group(EagerTrainerBase& trainer, std::exception_ptr error) noexcept {
  if (trainer.options().sync == nullptr) return;
  try {
    trainer.options().sync->fail(trainer.options().device, std::move(error));
  } catch (...) {  // it has failed before
  }
}

class Driver {
 public:
  Driver(ControlRoot& control, EagerTrainerBase& trainer, EpochSchedule& schedule, const DrivingOptions& options,
         DrivingState state)
      : control_(control), trainer_(trainer), schedule_(schedule), options_(options), state_(std::move(state)) {
    if (!state_.best_model.empty()) check_fits(trainer.model(), state_.best_model);
    if (state_.learning_rates.empty()) state_.learning_rates = rates_of(trainer.optimizer());
    if (!state_.schedule.empty()) schedule.load_state(state_.schedule);
    if (options.epochs.eligible && state_.loop.min_validation_epoch && state_.best_model.empty())
      raise<Error>("[driving] the state says that epoch {} was the best and has no best_model",
                   *state_.loop.min_validation_epoch);
  }

  LoopState drive() {
    control_.await_followers();
    EpochsParts parts;
    parts.train_epoch = [this](double factor) { return train(factor); };
    parts.stopped = [this] { return !trainer_.stop_reason().empty(); };
    parts.validate = [this] {
      control_.send({.kind = DriverMessage::Kind::validate});
      return one_evaluation(trainer_);
    };
    parts.keep_best = [this] { state_.best_model = copy_of(trainer_.model()); };
    parts.checkpoint = [this](const LoopState& loop) {
      state_.loop = loop;
      state_.schedule = schedule_.state();
      if (options_.checkpoint) options_.checkpoint(state_);
    };
    LoopState loop = epochs(options_.epochs, parts, schedule_, state_.loop);
    const bool best = !state_.best_model.empty();
    if (best) put_into(trainer_.model(), state_.best_model);
    control_.send({.kind = DriverMessage::Kind::stop, .takes_model = best});
    if (best) share_model(trainer_, trainer_.options().device);
    return loop;
  }

 private:
  double train(double factor) {
    std::vector<double> rates = state_.learning_rates;
    for (double& rate : rates) rate *= factor;
    control_.send({.kind = DriverMessage::Kind::train, .learning_rates = rates});
    set_rates(trainer_.optimizer(), rates);
    return one_epoch(trainer_);
  }

  ControlRoot& control_;
  EagerTrainerBase& trainer_;
  EpochSchedule& schedule_;
  const DrivingOptions& options_;
  DrivingState state_;
};

}  // namespace

double one_epoch(EagerTrainerBase& trainer) {
  trainer.train({.epochs = trainer.epoch() + 1});
  return trainer.take_mean_loss();
}

double one_evaluation(EagerTrainerBase& trainer) {
  double total = 0;
  bool found = false;
  for (const auto& [name, value] : trainer.evaluate())
    if (name.find("loss") != std::string::npos) total += value, found = true;
  if (!found) raise<DataError>("[driving] the evaluation of epoch {} gave no loss: no data?", trainer.epoch());
  return total;
}

LoopState drive_distributed_training(ControlRoot& control, EagerTrainerBase& trainer, EpochSchedule& schedule,
                                     const DrivingOptions& options, DrivingState state) {
  try {
    check(trainer);
    if (options.epochs.validation_frequency != 0) check_validates(trainer);
    return Driver(control, trainer, schedule, options, std::move(state)).drive();
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    fail_group(trainer, error);
    control.send({.kind = DriverMessage::Kind::stop, .error = text_of(error)});
    throw;
  }
}

void follow_distributed_training(ControlFollower& control, EagerTrainerBase& trainer, Member driver) {
  try {
    check(trainer);
    control.join();
    for (;;) {
      const DriverMessage message = control.receive();
      switch (message.kind) {
        case DriverMessage::Kind::train:
          set_rates(trainer.optimizer(), message.learning_rates);
          one_epoch(trainer);
          break;
        case DriverMessage::Kind::validate:
          check_validates(trainer);
          one_evaluation(trainer);
          break;
        case DriverMessage::Kind::stop:
          if (!message.error.empty()) raise<SyncError>("[driving] the driver failed: {}", message.error);
          if (message.takes_model) share_model(trainer, driver);
          return;
      }
    }
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    fail_group(trainer, error);
    control.fail(text_of(error));
    throw;
  }
}

std::string DrivingState::to_text() const {
  return write_json(
      nlohmann::json{{"loop", loop.to_text()}, {"schedule", schedule}, {"learning_rates", learning_rates}});
}

void DrivingState::load_text(const std::string& text) try {
  const auto json = parse_json<nlohmann::json>(text);
  LoopState read = LoopState::from_text(json.at("loop"));
  std::vector<double> rates = json.at("learning_rates");
  schedule = json.at("schedule");
  loop = std::move(read);
  learning_rates = std::move(rates);
} catch (const nlohmann::json::exception& error) {
  raise<DataError>("[driving] this is no state of a driven training: {}", error.what());
}

PartState part_state(const DrivingState& state) { return {state.best_model, state.to_text()}; }

Install prepare_part(DrivingState& state, const PartState& part) {
  if (!part.left_out.empty())
    raise<DataError>("[driving] the best model lacks \"{}\", which a filter left out", *part.left_out.begin());
  DrivingState read;
  read.load_text(part.text);
  read.best_model = part.arrays;
  if (read.loop.min_validation_epoch && read.best_model.empty())
    raise<DataError>("[driving] the best model, of epoch {}, is missing", *read.loop.min_validation_epoch);
  return [&state, read = std::move(read)]() mutable { state = std::move(read); };
}

}  // namespace tutti
