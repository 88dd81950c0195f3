// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/optimizer.h>

#include <tutti/backend/memory/thread_cache.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/optim/steps/ready_gradient.h>

#include <algorithm>
#include <cmath>
#include <optional>
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

/// One without a group would be trained by each device for itself, in silence, beside those that are averaged.
void refuse_mixture(const std::vector<Tensor>& parameters) {
  const Attachment* attached = nullptr;
  std::optional<std::size_t> alone;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].requires_grad()) continue;
    const auto& attachment = parameters[i].gradient_slot().attachment;
    if (attachment) attached = attachment.get();
    if (!attachment && !alone) alone = i;
  }
  if (attached == nullptr || !alone) return;
  raise(
      "[optimizer.step] parameter {}, {} {}, belongs to no synchronisation group, as \"{}\" does, so that its gradient "
      "is not averaged. Was a member of the model replaced after it was attached? What each device trains by itself "
      "needs an optimizer of its own",
      *alone, to_string(parameters[*alone].dtype()), to_string(parameters[*alone].shape()), attached->name);
}

/// State arrays appear with the first gradient: a parameter that never gets one costs nothing. They keep fitting: a
/// tensor's shape, type and device never change.
void prepare_state(Optimizer::ParameterState& state, const std::vector<std::string>& names, const Array& parameter,
                   double value) {
  for (const std::string& name : names)
    state.arrays.emplace_back(
        name, Array::full(parameter.shape(), value, computed_in(parameter.dtype()), parameter.device()));
}

void check_loaded(const Optimizer::ParameterState& state, const std::vector<std::string>& names, const Array& parameter,
                  std::size_t position, std::size_t group) {
  if (state.steps < 0) raise("[load_state] parameter {} has a negative step count", position);
  if (state.group != group)
    raise("[load_state] parameter {} is of group {}, in the state of group {}", position, group, state.group);
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
    if (array.dtype() != computed_in(parameter.dtype()))
      raise<DTypeError>("[load_state] parameter {} is {}, its {} {}", position, to_string(parameter.dtype()), name,
                        to_string(array.dtype()));
  }
}

/// What makes a step of all parameters together reads their states together.
void check_alike(const std::vector<Optimizer::ParameterState>& states) {
  for (std::size_t i = 1; i < states.size(); ++i)
    if (states[i].steps != states[0].steps || states[i].arrays.size() != states[0].arrays.size())
      raise<DataError>("[load_state] parameter {} has {} steps and {} state arrays, parameter 0 has {} and {}", i,
                       states[i].steps, states[i].arrays.size(), states[0].steps, states[0].arrays.size());
}

/// A contiguous copy with a storage of its own.
Array copy_onto(const Array& array, Device device) {
  return array.device() == device ? array.copy() : array.to(device).contiguous();
}

}  // namespace

Optimizer::Optimizer(std::vector<Group> groups) {
  if (groups.empty()) raise("[optimizer] there are no parameters to optimise");
  for (Group& group : groups) add_group(std::move(group));
  check_parameters(parameters_);
}

Optimizer::Optimizer(std::vector<Tensor> parameters, double learning_rate)
    : Optimizer(std::vector<Group>{{std::move(parameters), learning_rate}}) {}

void Optimizer::add_group(Group group) {
  check_learning_rate(group.learning_rate);
  for (Tensor& parameter : group.parameters) {
    parameters_.push_back(std::move(parameter));
    group_of_.push_back(rates_.size());
    states_.emplace_back().group = rates_.size();
  }
  rates_.push_back(group.learning_rate);
}

std::size_t Optimizer::group_of(std::size_t position) const {
  if (position >= group_of_.size())
    raise("[optimizer] there is no parameter {}: it has {}", position, group_of_.size());
  return group_of_[position];
}

double Optimizer::learning_rate(std::size_t group) const {
  if (group >= rates_.size()) raise("[optimizer] there is no group {}: it has {}", group, rates_.size());
  return rates_[group];
}

void Optimizer::set_learning_rate(double rate) {
  check_learning_rate(rate);
  for (double& each : rates_) each = rate;
}

void Optimizer::set_learning_rate(std::size_t group, double rate) {
  check_learning_rate(rate);
  if (group >= rates_.size()) raise("[optimizer] there is no group {}: it has {}", group, rates_.size());
  rates_[group] = rate;
}

void Optimizer::prepare(std::size_t position) {
  const Array& parameter = parameters_[position].array();
  if (!parameter.is_contiguous())
    raise("[optimizer.step] parameter {} is a strided view; give it a contiguous array", position);
  if (!states_[position].arrays.empty()) return;
  const std::size_t group = group_of_[position];
  prepare_state(states_[position], state_names(group), parameter, initial_state(group));
}

// Without a gradient, its gradient is undefined.
Optimizer::Update Optimizer::usable_update(std::size_t position) {
  const Array gradient = ready_gradient("optimizer.step", parameters_[position], position);
  if (!gradient.defined()) return {};
  prepare(position);
  return {position, parameters_[position].array(), gradient.contiguous(), &states_[position]};
}

SparseGradient Optimizer::usable_rows(std::size_t position) {
  if (const std::string why = refuses_rows(group_of_[position]); !why.empty())
    raise("[optimizer.step] {} has sparse gradients: {}", parameter_text(parameters_[position], position), why);
  SparseGradient rows = ready_sparse_gradient("optimizer.step", parameters_[position], position);
  if (rows.defined()) prepare(position);
  return rows;
}

// bf16 and f16 are updated in f32, in which their state is, and rounded after.
void Optimizer::update_widely(std::span<Update> alike) {
  if (!is_narrow(alike.front().parameter)) return update(alike);
  CachedVector<Array> parameters;
  for (Update& each : alike) {
    parameters.push_back(each.parameter);
    each.parameter = widened(each.parameter);
    each.gradient = widened(each.gradient);
  }
  update(alike);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].size() > 0) backend_for(parameters[i].device()).cast(alike[i].parameter, parameters[i]);
}

// Those that are alike at once. Mostly all are: a few may have got their first gradient late.
void Optimizer::apply(std::span<Update> updates) {
  for (const Update& each : updates) each.parameter.count_write("optimizer.step");
  for (std::span<Update> rest = updates; !rest.empty();) {
    const Update first = rest.front();
    const auto is_alike = [&](const Update& each) {
      return each.parameter.device() == first.parameter.device() && each.parameter.dtype() == first.parameter.dtype() &&
             each.state->steps == first.state->steps && each.state->group == first.state->group;
    };
    const auto others = std::ranges::find_if_not(rest, is_alike);
    const std::span<Update> alike(rest.begin(), std::stable_partition(others, rest.end(), is_alike));
    update_widely(alike);
    for (const Update& each : alike) ++each.state->steps;
    rest = rest.subspan(alike.size());
  }
}

void Optimizer::apply(std::size_t position, const SparseGradient& rows) {
  if (!rows.defined()) return;
  parameters_[position].array().count_write("optimizer.step");
  update_rows(position, parameters_[position].array(), rows, states_[position]);
  ++states_[position].steps;
}

void Optimizer::require_steppable() const {
  if (!owner_.expired())
    raise("[optimizer.step] the parameters are updated already, during backward (Overlap::in_backward): leave it out");
  if (torn_)
    raise(
        "[optimizer.step] an earlier step threw midway, and some parameters have it behind them: load parameters and "
        "state (load_state) first");
  refuse_mixture(parameters_);
}

void Optimizer::step() {
  require_steppable();
  if (needs_closure())
    raise("[optimizer.step] {} computes the loss several times in a step: call its step(closure)", kind());
  // Everything that can be refused is refused before the first parameter changes.
  CachedVector<Update> dense;
  dense.reserve(parameters_.size());
  CachedVector<SparseGradient> sparse(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].has_sparse_grad())
      sparse[i] = usable_rows(i);
    else if (Update next = usable_update(i); next.gradient.defined())
      dense.push_back(std::move(next));
  torn_ = true;  // until all are updated
  apply(dense);
  for (std::size_t i = 0; i < parameters_.size(); ++i) apply(i, sparse[i]);
  torn_ = false;
  ++steps_;
}

void Optimizer::update_parameter(std::size_t position) {
  if (parameters_[position].has_sparse_grad())
    apply(position, usable_rows(position));
  else if (Update next = usable_update(position); next.gradient.defined())
    apply({&next, 1});
}

std::string Optimizer::refuses_rows(std::size_t) const {
  return "this optimizer takes dense ones only: mark it dense with set_sparse_grad(false), or use Sgd, Adam or Adagrad";
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
  State copy{steps_, rates_, states_, kind()};
  for (ParameterState& parameter : copy.parameters)
    for (auto& [name, array] : parameter.arrays) array = array.copy();
  return copy;
}

void Optimizer::check_kind(const State& state) const {
  const std::string own = kind();
  if (!own.empty() && !state.kind.empty() && state.kind != own)
    raise("[load_state] the state is of the optimizer {}, this one is {}", state.kind, own);
}

void Optimizer::check_state(const State& state) const {
  check_kind(state);
  for (const double rate : state.learning_rates) check_learning_rate(rate);
  if (state.learning_rates.size() != rates_.size())
    raise("[load_state] the state is of {} groups, the optimizer has {}", state.learning_rates.size(), rates_.size());
  if (state.steps < 0) raise("[load_state] the step count {} is negative", state.steps);
  if (state.parameters.size() != parameters_.size())
    raise("[load_state] the state is of {} parameters, the optimizer has {}", state.parameters.size(),
          parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    check_loaded(state.parameters[i], loaded_names(state.parameters[i], group_of_[i]), parameters_[i].array(), i,
                 group_of_[i]);
  if (needs_closure()) check_alike(state.parameters);
}

void Optimizer::load_state(const State& state) {
  check_state(state);
  std::vector<ParameterState> loaded = state.parameters;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    for (auto& [name, array] : loaded[i].arrays) array = copy_onto(array, parameters_[i].device());
  states_ = std::move(loaded);
  torn_ = false;
  steps_ = state.steps;
  rates_ = state.learning_rates;
}

}  // namespace tutti
