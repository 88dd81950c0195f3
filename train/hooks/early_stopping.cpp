// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/hooks/early_stopping.h>

#include <tutti/backend/raise.h>
#include <tutti/train/checkpoints/json_text.h>
#include <tutti/train/trainer.h>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <ranges>
#include <utility>

namespace tutti {

EarlyStopping::EarlyStopping(EarlyStoppingOptions options) : options_(std::move(options)) {
  if (options_.patience < 1) raise<Error>("[early stopping] a patience of {}: at least 1", options_.patience);
  if (!(options_.min_delta >= 0)) raise<Error>("[early stopping] min_delta is {}: below 0", options_.min_delta);
}

bool EarlyStopping::improves(double value) const {
  if (!std::isfinite(value)) return false;
  if (!best_) return true;
  return options_.smaller_is_better ? value < *best_ - options_.min_delta : value > *best_ + options_.min_delta;
}

void EarlyStopping::after_evaluation(const Metrics& means) {
  if (!trainer().running()) return;
  const auto found = means.find(options_.metric);
  if (found == means.end())
    raise<Error>("[early stopping] the evaluation has no \"{}\": it gave {}", options_.metric,
                 fmt::join(std::views::keys(means), ", "));
  if (improves(found->second)) {
    best_ = found->second;
    bad_ = 0;
  } else if (++bad_ >= options_.patience) {
    stop();
  }
}

void EarlyStopping::before_train() {
  if (bad_ >= options_.patience) stop();
}

void EarlyStopping::stop() {
  const std::string best = best_ ? fmt::format("{:.6g}", *best_) : "none";
  trainer().stop(fmt::format("{} has not improved in {} evaluations; the best was {}", options_.metric, bad_, best));
}

std::string EarlyStopping::state() const {
  nlohmann::json json{{"bad", bad_}};
  if (best_) json["best"] = *best_;
  return write_json(json);
}

void EarlyStopping::load_state(const std::string& text) try {
  const auto json = parse_json<nlohmann::json>(text);
  const std::int64_t bad = json.at("bad");
  std::optional<double> best;
  if (json.contains("best")) best = json.at("best").get<double>();
  bad_ = bad;
  best_ = best;
} catch (const nlohmann::json::exception& error) {
  raise<DataError>("[early stopping] this is no state of it: {}", error.what());
}

}  // namespace tutti
