// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/optimizer.h>

#include <tutti/backend/error.h>
#include <tutti/optim/ready_gradient.h>

#include <cmath>
#include <unordered_set>

namespace tutti {
namespace {

void check_learning_rate(double rate) {
  if (!(std::isfinite(rate) && rate >= 0.0))
    raise("[optimizer] the learning rate must be finite and not negative, got {}", rate);
}

void check_parameters(const std::vector<Tensor>& parameters) {
  if (parameters.empty()) raise("[optimizer] there are no parameters to optimise");
  std::unordered_set<const void*> seen;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& parameter = parameters[i];
    if (!parameter.defined()) raise("[optimizer] parameter {} is undefined", i);
    if (!parameter.is_leaf()) raise("[optimizer] parameter {} was computed by an operation; pass leaves", i);
    if (!is_floating(parameter.dtype()))
      raise<DTypeError>("[optimizer] parameter {} is {}; only floating types can be optimised", i,
                        to_string(parameter.dtype()));
    if (!seen.insert(parameter.identity()).second)
      raise("[optimizer] parameter {} is listed twice and would be updated twice a step", i);
  }
}

/// State arrays appear with the first gradient: a parameter that never gets one costs nothing. They keep fitting: a
/// tensor's shape, type and device never change.
void prepare_state(Optimizer::ParameterState& state, const std::vector<std::string>& names, const Array& parameter) {
  if (!state.arrays.empty()) return;
  for (const std::string& name : names)
    state.arrays.emplace_back(name, Array::zeros(parameter.shape(), parameter.dtype(), parameter.device()));
}

void check_loaded(const Optimizer::ParameterState& state, const std::vector<std::string>& names, const Array& parameter,
                  std::size_t position) {
  if (state.steps < 0) raise("[load_state] parameter {} has a negative step count", position);
  if (state.arrays.empty() && state.steps == 0) return;
  if (state.arrays.size() != names.size())
    raise("[load_state] parameter {} has {} state arrays, expected {}", position, state.arrays.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& [name, array] = state.arrays[i];
    if (name != names[i])
      raise("[load_state] parameter {} has state \"{}\", expected \"{}\"", position, name, names[i]);
    if (!array.defined() || array.shape() != parameter.shape())
      raise<ShapeError>("[load_state] parameter {} is {}, its {} {}", position, to_string(parameter.shape()), name,
                        array.defined() ? to_string(array.shape()) : "undefined");
    if (array.dtype() != parameter.dtype())
      raise<DTypeError>("[load_state] parameter {} is {}, its {} {}", position, to_string(parameter.dtype()), name,
                        to_string(array.dtype()));
  }
}

/// A contiguous copy with a storage of its own.
Array copy_onto(const Array& array, Device device) {
  return array.device() == device ? array.copy() : array.to(device).contiguous();
}

}  // namespace

Optimizer::Optimizer(std::vector<Tensor> parameters, double learning_rate)
    : parameters_(std::move(parameters)), learning_rate_(learning_rate) {
  check_learning_rate(learning_rate);
  check_parameters(parameters_);
  states_.resize(parameters_.size());
}

void Optimizer::set_learning_rate(double rate) {
  check_learning_rate(rate);
  learning_rate_ = rate;
}

void Optimizer::prepare(std::size_t position, const std::vector<std::string>& names) {
  if (!parameters_[position].array().is_contiguous())
    raise("[optimizer.step] parameter {} is a strided view; give it a contiguous array", position);
  prepare_state(states_[position], names, parameters_[position].array());
}

// Contiguous, with its state prepared; undefined if there is none.
Array Optimizer::usable_gradient(std::size_t position, const std::vector<std::string>& names) {
  const Array gradient = ready_gradient("optimizer.step", parameters_[position], position);
  if (!gradient.defined()) return gradient;
  prepare(position, names);
  return gradient.contiguous();
}

SparseGradient Optimizer::usable_rows(std::size_t position, const std::vector<std::string>& names) {
  if (const std::string why = refuses_rows(); !why.empty())
    raise("[optimizer.step] {} has sparse gradients: {}", parameter_text(parameters_[position], position), why);
  SparseGradient rows = ready_sparse_gradient("optimizer.step", parameters_[position], position);
  if (rows.defined()) prepare(position, names);
  return rows;
}

void Optimizer::apply(std::size_t position, const Array& gradient) {
  if (!gradient.defined()) return;
  update(position, parameters_[position].array(), gradient, states_[position]);
  ++states_[position].steps;
}

void Optimizer::apply(std::size_t position, const SparseGradient& rows) {
  if (!rows.defined()) return;
  update_rows(position, parameters_[position].array(), rows, states_[position]);
  ++states_[position].steps;
}

void Optimizer::step() {
  if (!owner_.expired())
    raise("[optimizer.step] the parameters are updated already, during backward (Overlap::in_backward): leave it out");
  // Everything that can be refused is refused before the first parameter changes.
  std::vector<Array> gradients(parameters_.size());
  std::vector<SparseGradient> sparse(parameters_.size());
  const std::vector<std::string> names = state_names();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].has_sparse_grad())
      sparse[i] = usable_rows(i, names);
    else
      gradients[i] = usable_gradient(i, names);
  torn_ = true;  // until all are updated
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    apply(i, gradients[i]);
    apply(i, sparse[i]);
  }
  torn_ = false;
  ++steps_;
}

void Optimizer::update_parameter(std::size_t position) {
  if (parameters_[position].has_sparse_grad())
    apply(position, usable_rows(position, state_names()));
  else
    apply(position, usable_gradient(position, state_names()));
}

std::string Optimizer::refuses_rows() const {
  return "this optimizer takes dense ones only: mark it dense with set_sparse_grad(false), or use Sgd";
}

void Optimizer::update_rows(std::size_t, const Array&, const SparseGradient&, ParameterState&) {}

void Optimizer::zero_grad() {
  for (Tensor& parameter : parameters_)
    if (parameter.requires_grad()) parameter.zero_grad();
}

std::size_t Optimizer::state_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const ParameterState& state : states_)
    for (const auto& [name, array] : state.arrays) bytes += array.bytes();
  return bytes;
}

Optimizer::State Optimizer::state() const {
  State copy{steps_, learning_rate_, states_};
  for (ParameterState& parameter : copy.parameters)
    for (auto& [name, array] : parameter.arrays) array = array.copy();
  return copy;
}

void Optimizer::load_state(const State& state) {
  check_learning_rate(state.learning_rate);
  if (state.steps < 0) raise("[load_state] the step count {} is negative", state.steps);
  if (state.parameters.size() != parameters_.size())
    raise("[load_state] the state is of {} parameters, the optimizer has {}", state.parameters.size(),
          parameters_.size());
  const std::vector<std::string> names = state_names();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    check_loaded(state.parameters[i], names, parameters_[i].array(), i);
  std::vector<ParameterState> loaded = state.parameters;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    for (auto& [name, array] : loaded[i].arrays) array = copy_onto(array, parameters_[i].device());
  states_ = std::move(loaded);
  torn_ = false;
  steps_ = state.steps;
  learning_rate_ = state.learning_rate;
}

}  // namespace tutti
