// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/weight_average.h>

#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>
#include <tutti/optim/steps/blend.h>
#include <tutti/optim/steps/option_checks.h>

#include <algorithm>
#include <utility>

namespace tutti {

WeightAverage::WeightAverage(std::vector<Tensor> parameters, const WeightAverageOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  check_share("WeightAverage", "decay", options.decay);
  if (parameters_.empty()) raise("[WeightAverage] there are no parameters to average");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    if (!parameter.defined() || !parameter.is_leaf()) raise("[WeightAverage] parameter {} is no leaf", i);
    if (!is_floating(parameter.dtype()))
      raise<DTypeError>("[WeightAverage] parameter {} is {}; only floating types have averages", i,
                        to_string(parameter.dtype()));
    averages_.push_back(is_narrow(parameter.dtype()) ? widened(parameter.array()) : parameter.array().copy());
  }
}

double WeightAverage::decay_of(std::int64_t update) const noexcept {
  const auto t = static_cast<double>(update);
  return options_.warm_up ? std::min(options_.decay, (1.0 + t) / (10.0 + t)) : options_.decay;
}

void WeightAverage::update() {
  if (applied_) raise("[WeightAverage] a scope has the averages applied: end it before the next update");
  const double decay = decay_of(updates_ + 1);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    averages_[i].count_write("weight_average.update");  // a model may have them applied
    blend(averages_[i], decay, widened(parameters_[i].array()).contiguous(), 1.0 - decay);
  }
  ++updates_;
}

WeightAverage::Applied::Applied(WeightAverage& average) : average_(average) {
  if (average.applied_) raise("[WeightAverage] a scope has the averages applied already");
  for (std::size_t i = 0; i < average.parameters_.size(); ++i) {
    Tensor& parameter = average.parameters_[i];
    values_.push_back(parameter.array());
    parameter.set_array(average.averages_[i].cast(parameter.dtype()));
  }
  average.applied_ = true;
}

WeightAverage::Applied::~Applied() {
  for (std::size_t i = 0; i < values_.size(); ++i) average_.parameters_[i].set_array(std::move(values_[i]));
  average_.applied_ = false;
}

WeightAverage::State WeightAverage::state() const {
  State state{updates_, {}};
  for (const Array& average : averages_) state.averages.push_back(average.copy());
  return state;
}

void WeightAverage::check_state(const State& state) const {
  if (applied_) raise("[load_state] a scope has the averages applied: end it first");
  if (state.updates < 0) raise("[load_state] the count of updates {} is negative", state.updates);
  if (state.averages.size() != averages_.size())
    raise("[load_state] the state is of {} averages, there are {}", state.averages.size(), averages_.size());
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const Array& average = state.averages[i];
    if (!average.defined() || average.shape() != averages_[i].shape())
      raise<ShapeError>("[load_state] parameter {} is {}, its average {}", i, to_string(averages_[i].shape()),
                        average.defined() ? to_string(average.shape()) : "undefined");
    if (average.dtype() != averages_[i].dtype())
      raise<DTypeError>("[load_state] parameter {} is {}, its average {}", i, to_string(averages_[i].dtype()),
                        to_string(average.dtype()));
  }
}

void WeightAverage::load_state(const State& state) {
  check_state(state);
  std::vector<Array> loaded;
  for (std::size_t i = 0; i < averages_.size(); ++i)
    loaded.push_back(state.averages[i].to(averages_[i].device()).copy());
  averages_ = std::move(loaded);
  updates_ = state.updates;
}

}  // namespace tutti
