// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/epochs.h>

#include <tutti/backend/raise.h>
#include <tutti/train/checkpoints/json_text.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <utility>

namespace tutti {
namespace {

using SortedJson = nlohmann::json;

// NaN and infinities have no numbers in JSON.
SortedJson exact(double value) {
  return std::isfinite(value) ? SortedJson(value) : SortedJson(fmt::format("{}", value));
}
double number(const SortedJson& json) {
  return json.is_string() ? std::stod(json.get<std::string>()) : json.get<double>();
}

template <class T> SortedJson exact(const std::optional<T>& value) { return value ? exact(*value) : SortedJson(); }
std::optional<double> optional_number(const SortedJson& json) {
  return json.is_null() ? std::nullopt : std::optional(number(json));
}

class Constant final : public EpochSchedule {
  double factor(std::int64_t, std::optional<double>) override { return 1; }
};

class Decay final : public EpochSchedule {
 public:
  Decay(double factor, std::int64_t every) : factor_(factor), every_(every) {
    if (every < 1) raise<Error>("[epoch schedule] decay every {} epochs: at least 1", every);
  }
  double factor(std::int64_t epoch, std::optional<double>) override {
    return std::pow(factor_, static_cast<double>(epoch / every_));
  }

 private:
  double factor_;
  std::int64_t every_;
};

class Plateau final : public EpochSchedule {
 public:
  Plateau(double factor, std::int64_t patience, double least) : times_(factor), patience_(patience), least_(least) {
    if (!(factor > 0 && factor < 1)) raise<Error>("[epoch schedule] a factor of {}: between 0 and 1", factor);
    if (patience < 1) raise<Error>("[epoch schedule] a patience of {}: at least 1", patience);
  }

  double factor(std::int64_t, std::optional<double> loss) override {
    if (!loss) return current_;
    if (std::isfinite(*loss) && (!best_ || *loss < *best_)) {
      best_ = loss;
      bad_ = 0;
    } else if (++bad_ >= patience_) {
      current_ *= times_;
      bad_ = 0;
    }
    return current_ < least_ ? 0 : current_;
  }
  std::string state() const override {
    return write_json(SortedJson{{"factor", current_}, {"bad", bad_}, {"best", exact(best_)}});
  }
  void load_state(const std::string& text) override try {
    const SortedJson json = parse_json<SortedJson>(text);
    const double current = json.at("factor");
    const std::int64_t bad = json.at("bad");
    best_ = optional_number(json.at("best"));
    current_ = current;
    bad_ = bad;
  } catch (const std::exception& error) {
    raise<DataError>("[epoch schedule] this is no state of a plateau: {}", error.what());
  }

 private:
  double times_;
  std::int64_t patience_;
  double least_;
  double current_ = 1;
  std::optional<double> best_;
  std::int64_t bad_ = 0;
};

void check(const EpochsOptions& options, const EpochsParts& parts) {
  if (options.max_epochs < 0) raise<Error>("[epochs] at most {} epochs: below 0", options.max_epochs);
  if (options.validation_frequency < 0)
    raise<Error>("[epochs] a validation every {} epochs: at least 1, or 0 for never", options.validation_frequency);
  if (!(options.smoothing > 0 && options.smoothing <= 1))
    raise<Error>("[epochs] a smoothing of {}: in (0, 1]", options.smoothing);
  if (!parts.train_epoch) raise<Error>("[epochs] there is no train_epoch");
  if (options.eligible && !(parts.validate && parts.keep_best && options.validation_frequency > 0))
    raise<Error>("[epochs] a best model needs validate and keep_best, and a validation_frequency above 0");
}

bool is_due(const EpochsOptions& options, std::int64_t epoch) {
  if (options.validation_frequency == 0) return false;
  return epoch % options.validation_frequency == 0 || epoch + 1 == options.max_epochs;
}

void validate(const EpochsOptions& options, const EpochsParts& parts, LoopState& state, LoopState::Epoch& epoch) {
  if (!parts.validate || !is_due(options, state.epoch)) return;
  const double loss = parts.validate();
  const double before = state.last_validation_loss.value_or(loss);
  // One that is not finite is not carried on.
  const double smoothed = std::isfinite(before) ? options.smoothing * loss + (1 - options.smoothing) * before : loss;
  epoch.validation = {loss, smoothed};
  state.last_validation_loss = smoothed;
  if (!options.eligible || !options.eligible(state.epoch) || std::isnan(smoothed)) return;
  if (state.min_validation_loss && !(smoothed < *state.min_validation_loss)) return;
  parts.keep_best();
  state.min_validation_loss = smoothed;
  state.min_validation_epoch = state.epoch;
}

}  // namespace

std::unique_ptr<EpochSchedule> EpochSchedule::constant() { return std::make_unique<Constant>(); }
std::unique_ptr<EpochSchedule> EpochSchedule::decay(double factor, std::int64_t every) {
  return std::make_unique<Decay>(factor, every);
}
std::unique_ptr<EpochSchedule> EpochSchedule::reduce_on_plateau(double factor, std::int64_t patience, double least) {
  return std::make_unique<Plateau>(factor, patience, least);
}

LoopState epochs(const EpochsOptions& options, const EpochsParts& parts, EpochSchedule& schedule, LoopState state) {
  check(options, parts);
  while (state.epoch < options.max_epochs && !state.stopped_by_schedule) {
    const bool validated = !state.learning_curve.empty() && state.learning_curve.back().validation;
    const double factor = schedule.factor(state.epoch, validated ? state.last_validation_loss : std::nullopt);
    if (!(factor > 0)) {
      state.stopped_by_schedule = true;
      break;
    }
    LoopState::Epoch epoch{.epoch = state.epoch, .training_loss = parts.train_epoch(factor), .validation = {}};
    if (parts.stopped && parts.stopped()) break;
    validate(options, parts, state, epoch);
    state.learning_curve.push_back(epoch);
    ++state.epoch;
    if (parts.checkpoint) parts.checkpoint(state);
  }
  return state;
}

std::string LoopState::to_text() const {
  SortedJson curve = SortedJson::array();
  for (const Epoch& entry : learning_curve) {
    SortedJson point{entry.epoch, exact(entry.training_loss)};
    if (entry.validation) {
      point.push_back(exact(entry.validation->loss));
      point.push_back(exact(entry.validation->smoothed));
    }
    curve.push_back(std::move(point));
  }
  SortedJson json{{"epoch", epoch},
                  {"last", exact(last_validation_loss)},
                  {"min", exact(min_validation_loss)},
                  {"stopped", stopped_by_schedule},
                  {"curve", std::move(curve)}};
  if (min_validation_epoch) json["min_epoch"] = *min_validation_epoch;
  return write_json(json);
}

LoopState LoopState::from_text(const std::string& text) try {
  const SortedJson json = parse_json<SortedJson>(text);
  LoopState state;
  state.epoch = json.at("epoch");
  state.last_validation_loss = optional_number(json.at("last"));
  state.min_validation_loss = optional_number(json.at("min"));
  if (json.contains("min_epoch")) state.min_validation_epoch = json.at("min_epoch").get<std::int64_t>();
  state.stopped_by_schedule = json.at("stopped");
  for (const SortedJson& point : json.at("curve")) {
    Epoch& entry = state.learning_curve.emplace_back();
    entry.epoch = point.at(0);
    entry.training_loss = number(point.at(1));
    if (point.size() > 2) entry.validation = Validation{number(point.at(2)), number(point.at(3))};
  }
  return state;
} catch (const std::exception& error) {  // nlohmann's and stod's
  raise<DataError>("[epochs] this is no state of the loop: {}", error.what());
}

}  // namespace tutti
