// SPDX-License-Identifier: Apache-2.0
// What an EagerTrainer keeps of its steps' results, and makes of them when they are asked for.
#include <tutti/train/eager_trainer.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/train/checkpoints/json_text.h>
#include <tutti/train/loop/learning_rates.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <sstream>

namespace tutti {
namespace {

using Averages = std::map<std::string, RunningAverage, std::less<>>;
constexpr const char* kTotal = "";  // the sum of a step's losses, among them by a name that none has

/// A device's learning rates, as it tells the others; they need them alike.
struct ToldRates {
  static constexpr std::string_view kBegin = "rates ";  // of its line; those of averages begin with a number

  static std::string line(const std::string& device, const EagerOptions& options, const Optimizer& optimizer) {
    const Optimizer* const sparse = options.sparse_optimizer;
    return fmt::format("{}{}|{}{}\n", kBegin, device, text_of_rates(optimizer),
                       sparse == nullptr ? "" : " (sparse: " + text_of_rates(*sparse) + ")");
  }

  explicit ToldRates(std::string_view line) {
    const std::size_t end = line.find('|');
    device = line.substr(kBegin.size(), end - kBegin.size());
    rates = line.substr(end + 1);
  }

  std::string device;
  std::string rates;
};

void check_rates(const std::vector<ToldRates>& all) {
  for (const ToldRates& other : all)
    if (other.rates != all.front().rates)
      raise<Error>(
          "[trainer] the learning rate is {} on {} and {} on {}: replicas drift apart. Each device's trainer "
          "needs the same schedule",
          all.front().rates, all.front().device, other.rates, other.device);
}

Metrics means_of(const Averages& averages) {
  Metrics means;
  for (const auto& [name, average] : averages) means[name] = average.mean();
  return means;
}

}  // namespace

// Values are kept as they are until they are asked for: on a GPU the host would wait for each.
void EagerTrainerBase::keep(const Losses& losses, double weight) {
  if (options_.metrics_every == 0) return;
  Losses values;
  for (const auto& [name, value] : losses) values.emplace_back(name, value.detach());
  results_.emplace_back(std::move(values), weight);
}

Metrics EagerTrainerBase::end_step() {
  if (options_.whole_updates) finish_updates();
  if (options_.metrics_every == 0) return {};
  unread_.push_back(std::exchange(results_, {}));
  unwritten_ = true;
  if ((iteration() + 1) % options_.metrics_every != 0) return {};
  return write_metrics();
}

void EagerTrainerBase::add_unread(Measured& measured) const {
  for (const StepResults& step : unread_) {
    double step_weight = 0;
    std::map<std::string, double> sums;
    for (const auto& [losses, weight] : step) {
      double total = 0;
      for (const auto& [name, value] : losses) {
        const auto number = value.item<double>();
        if (!detail::is_loss(name)) {
          sums[name] += number;
          continue;
        }
        measured.averages[name].add(number, weight);
        total += number;
      }
      if (!losses.empty()) measured.averages[kTotal].add(total, weight);
      measured.loss.add(total, weight);
      step_weight += weight;
    }
    for (const auto& [name, sum] : sums) measured.averages[name].add(sum, step_weight);
  }
}

void EagerTrainerBase::read_metrics() {
  add_unread(measured_);
  unread_.clear();
}

std::string EagerTrainerBase::measured() const {
  Measured all = measured_;
  add_unread(all);
  nlohmann::json averages = nlohmann::json::object();
  for (const auto& [name, average] : all.averages) averages[name] = average.to_text();
  return write_json(nlohmann::json{{"averages", averages}, {"loss", all.loss.to_text()}});
}

std::function<void()> EagerTrainerBase::prepare_measured(const std::vector<std::string>& texts) try {
  Measured all;
  const auto add = [](RunningAverage& to, const std::string& text) {
    RunningAverage average;
    average.load_text(text);
    to.merge(average);
  };
  for (const std::string& text : texts) {
    const auto json = parse_json<nlohmann::json>(text);
    for (const auto& [name, average] : json.at("averages").items()) add(all.averages[name], average);
    add(all.loss, json.at("loss"));
  }
  return [this, all = std::move(all)] {
    measured_ = all;
    unread_.clear();
    unwritten_ = options_.metrics_every > 0;
  };
} catch (const nlohmann::json::exception& error) {
  raise<DataError>("[trainer] this is nothing that a trainer measured: {}", error.what());
}

// By examples. Devices may know different names, one without examples none: what they send is text, a line for each
// behind that of their rates.
Metrics EagerTrainerBase::group_means(const Averages& own) {
  if (options_.sync == nullptr) return means_of(own);
  const std::vector<Device>& devices = options_.sync->devices();
  const auto found = std::ranges::find(devices, options_.device);
  const std::string name =
      found == devices.end()
          ? to_string(options_.device)  // which the group refuses below
          : options_.sync->server().members().name(static_cast<std::size_t>(found - devices.begin()));
  std::string text = ToldRates::line(name, options_, optimizer_);
  for (const auto& [name, average] : own) text += fmt::format("{} {} {}\n", average.weight(), average.mean(), name);
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  const Tensor sent(Array::from(bytes, {static_cast<std::int64_t>(bytes.size())}, options_.device));
  const auto all = options_.sync->all_gather(options_.device, sent, fmt::format("means at step {}", iteration()))
                       .resolve()
                       .to_vector<std::uint8_t>();
  Averages averages;
  std::vector<ToldRates> rates;
  std::istringstream lines(std::string(all.begin(), all.end()));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(ToldRates::kBegin)) {
      rates.emplace_back(line);
      continue;
    }
    const char* const last = line.data() + line.size();
    double weight = 0;
    double value = 0;
    const char* at = std::from_chars(line.data(), last, weight).ptr;
    at = std::from_chars(at + 1, last, value).ptr;
    averages[std::string(at + 1, last)].add(value, weight);
  }
  check_rates(rates);
  return means_of(averages);
}

Metrics EagerTrainerBase::evaluated(Metrics means, const Metrics& weights) {
  if (!options_.evaluate_together) return means;
  Averages own;
  for (const auto& [name, value] : means) own[name].add(value, weights.at(name));
  return group_means(own);
}

double EagerTrainerBase::take_mean_loss() {
  if (options_.metrics_every == 0) raise<Error>("[trainer] losses are not kept with metrics_every 0");
  read_metrics();
  Averages own{{"loss", std::exchange(measured_.loss, {})}};
  return group_means(own).at("loss");
}

// The sum of the losses, and each by itself where there are several.
Metrics EagerTrainerBase::write_metrics() {
  read_metrics();
  Metrics metrics = group_means(std::exchange(measured_.averages, {}));
  unwritten_ = false;
  const auto total = metrics.extract(kTotal);
  if (metrics.empty()) return metrics;
  storage().put_scalar("data_time", data_time(), EventStorage::Smoothing::none);
  if (!total.empty()) storage().put_scalar(options_.prefix + "total_loss", total.mapped());
  if (metrics.size() > 1)
    for (const auto& [name, value] : metrics) storage().put_scalar(options_.prefix + name, value);
  return metrics;
}

}  // namespace tutti
