// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/lbfgs.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/optim/optimizers/wolfe_search.h>
#include <tutti/optim/steps/option_checks.h>
#include <tutti/optim/steps/ready_gradient.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tutti {
namespace {

using Vector = std::vector<Tensor>;  // a part for each parameter

constexpr double kLeastCurvature = 1e-10;  // of pairs that are kept

/// part(0) + part(1) + ..., with one wait for the device.
template <class Part> double total(std::size_t count, const Part& part) {
  Tensor all = part(0);
  for (std::size_t i = 1; i < count; ++i) all = all + part(i);
  return all.template item<double>();
}

/// a . b in f64: squares of f32 overflow where a model's values do not.
double dot(const Vector& a, const Vector& b) {
  return total(a.size(), [&](std::size_t i) { return sum(cast(a[i], DType::f64) * cast(b[i], DType::f64)); });
}

Vector scaled(const Vector& x, double factor) {
  Vector result;
  for (const Tensor& part : x) result.push_back(part * factor);
  return result;
}

/// x + factor y.
Vector moved(const Vector& x, double factor, const Vector& y) {
  Vector result;
  for (std::size_t i = 0; i < x.size(); ++i) result.push_back(x[i] + y[i] * factor);
  return result;
}

double total_size(const Vector& x) {
  return total(x.size(), [&](std::size_t i) { return sum(abs(cast(x[i], DType::f64))); });
}

double largest(const Vector& x) {
  std::vector<Tensor> parts{zeros({1}, {.dtype = DType::f64, .device = x.front().device()})};
  for (const Tensor& part : x)
    if (part.size() > 0) parts.push_back(reshape(cast(max(abs(part)), DType::f64), {1}));
  return max(concatenate(parts, 0)).item<double>();
}

void require_finite(const Vector& gradient) {
  const auto misses = [&](std::size_t i) { return sum(cast(logical_not(isfinite(gradient[i])), DType::f64)); };
  if (total(gradient.size(), misses) == 0) return;
  for (std::size_t i = 0; i < gradient.size(); ++i)
    if (!all_true(isfinite(gradient[i])).item<bool>())
      raise("[Lbfgs.step] the gradient of parameter {} is not finite, though the loss is", i);
}

struct Pair {
  Vector step;    // of the parameters
  Vector change;  // of the gradient
};

void check_lbfgs_options(const LbfgsOptions& options) {
  if (options.iterations < 1) raise("[Lbfgs] iterations must be positive, got {}", options.iterations);
  if (options.evaluations < 0) raise("[Lbfgs] evaluations must not be negative, got {}", options.evaluations);
  if (options.history < 1) raise("[Lbfgs] history must be positive, got {}", options.history);
  check_not_negative("Lbfgs", "tolerance_gradient", options.tolerance_gradient);
  check_not_negative("Lbfgs", "tolerance_change", options.tolerance_change);
}

}  // namespace

struct Lbfgs::Memory {
  std::int64_t iterations = 0;
  Vector gradient;          // where the last iteration began
  Vector step;              // that it made
  std::vector<Pair> pairs;  // the oldest first

  /// Takes what the last iteration taught; pairs of negative curvature are of no use.
  void learn(const Vector& gradient_now, int history) {
    const Vector change = moved(gradient_now, -1.0, gradient);
    if (!(dot(change, step) > kLeastCurvature)) return;
    if (std::ssize(pairs) == history) pairs.erase(pairs.begin());
    pairs.push_back({step, change});
  }

  /// -H g by two loops over the pairs.
  Vector direction(const Vector& gradient_now) const {
    Vector result = scaled(gradient_now, -1.0);
    if (pairs.empty()) return result;
    std::vector<double> curvatures;
    for (const Pair& pair : pairs) curvatures.push_back(dot(pair.change, pair.step));
    std::vector<double> shares(pairs.size());
    for (std::size_t i = pairs.size(); i-- > 0;) {
      shares[i] = dot(pairs[i].step, result) / curvatures[i];
      result = moved(result, -shares[i], pairs[i].change);
    }
    result = scaled(result, curvatures.back() / dot(pairs.back().change, pairs.back().change));
    for (std::size_t i = 0; i < pairs.size(); ++i)
      result = moved(result, shares[i] - dot(pairs[i].change, result) / curvatures[i], pairs[i].step);
    return result;
  }
};

Lbfgs::Lbfgs(std::vector<Tensor> parameters, double learning_rate, const LbfgsOptions& options)
    : Optimizer(std::move(parameters), learning_rate), options_(options) {
  check_lbfgs_options(options_);
  if (options_.evaluations == 0) options_.evaluations = std::max(1, options_.iterations * 5 / 4);
  const Tensor& first = this->parameters().front();
  for (const Tensor& parameter : this->parameters()) {
    if (is_narrow(parameter.dtype()))
      raise<DTypeError>("[Lbfgs] a parameter is {}: differences of gradients need f32 or f64",
                        to_string(parameter.dtype()));
    if (parameter.device() != first.device())
      raise<DeviceError>("[Lbfgs] parameters are on {} and {}: all must be on one device", to_string(first.device()),
                         to_string(parameter.device()));
  }
}

/// The loss as a function of the parameters, with what its evaluations cost.
class Lbfgs::Objective {
 public:
  Objective(const std::vector<Tensor>& parameters, const Lbfgs::Closure& closure)
      : parameters_(parameters), closure_(closure) {}

  int evaluations() const { return evaluations_; }

  Vector place() const {
    Vector copies;
    for (const Tensor& parameter : parameters_) copies.emplace_back(parameter.array().copy());
    return copies;
  }
  void move_to(const Vector& place) const {
    const NoGrad in_place;
    for (std::size_t i = 0; i < place.size(); ++i) parameters_[i].copy_(place[i]);
  }
  /// Loss and gradient where the parameters are; the slope is along `direction`, if there is one. Error for a gradient
  /// that is not finite where the loss is.
  LinePoint here(double step = 0.0, const Vector& direction = {}) {
    ++evaluations_;
    for (const Tensor& parameter : parameters_)
      if (parameter.requires_grad()) Tensor(parameter).zero_grad();
    const Tensor loss = closure_();
    if (!loss.defined() || loss.size() != 1)
      raise<ShapeError>("[Lbfgs.step] the closure returned {}: the loss must be one number",
                        loss.defined() ? to_string(loss.shape()) : "an undefined tensor");
    LinePoint point{.step = step, .loss = loss.item<double>()};
    bool any = false;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Array found = gradient(i);
      any = any || found.defined();
      // A copy: the next backward may write to the same memory.
      point.gradient.push_back(found.defined() ? Tensor(found.copy()) : zeros_like(parameters_[i]));
    }
    if (!any) raise("[Lbfgs.step] no parameter has a gradient: the closure must call backward");
    if (std::isfinite(point.loss)) require_finite(point.gradient);
    if (!direction.empty()) point.slope = dot(point.gradient, direction);
    return point;
  }

 private:
  Array gradient(std::size_t i) const {
    if (parameters_[i].has_sparse_grad())
      raise("[Lbfgs.step] {} has sparse gradients: mark it dense with set_sparse_grad(false)",
            parameter_text(parameters_[i], i));
    return ready_gradient("Lbfgs.step", parameters_[i], i);
  }

  const std::vector<Tensor>& parameters_;
  const Lbfgs::Closure& closure_;
  int evaluations_ = 0;
};

double Lbfgs::step(const Closure& closure) {
  require_steppable();
  if (!closure) raise("[Lbfgs.step] there is no closure to compute the loss");
  Objective objective(parameters(), closure);
  const Vector start = objective.place();
  Memory memory = recall();
  LinePoint point;
  double first_loss = 0;
  try {
    point = objective.here();
    first_loss = point.loss;
    if (!std::isfinite(first_loss)) raise("[Lbfgs.step] the loss is {} before the first iteration", first_loss);
    iterate(objective, memory, std::move(point));
  } catch (...) {
    objective.move_to(start);
    throw;
  }
  remember(memory);
  end_step();
  return first_loss;
}

void Lbfgs::iterate(Objective& objective, Memory& memory, LinePoint point) const {
  for (int iteration = 1; largest(point.gradient) > options_.tolerance_gradient; ++iteration) {
    const bool first = memory.iterations++ == 0;
    if (!first) memory.learn(point.gradient, options_.history);
    const Vector direction = memory.direction(point.gradient);
    memory.gradient = point.gradient;
    memory.step = scaled(direction, 0.0);
    point.step = 0;
    point.slope = dot(point.gradient, direction);
    if (!(point.slope <= -options_.tolerance_change)) return;

    const double shortened = first ? std::min(1.0, 1.0 / total_size(point.gradient)) : 1.0;
    double length = shortened * learning_rate();
    const Vector origin = objective.place();
    const double loss = point.loss;
    const bool last = iteration == options_.iterations;
    if (options_.strong_wolfe) {
      const auto evaluate = [&](double step) {
        objective.move_to(moved(origin, step, direction));
        return objective.here(step, direction);
      };
      const int left = std::max(0, options_.evaluations - objective.evaluations());
      point = wolfe_search(evaluate, point,
                           {.first_step = length,
                            .longest = largest(direction),
                            .tolerance_change = options_.tolerance_change,
                            .evaluations = left});
      length = point.step;
    }
    memory.step = scaled(direction, length);
    objective.move_to(moved(origin, 1.0, memory.step));
    if (!options_.strong_wolfe) {
      if (last) return;  // the loss there is not asked for
      point = objective.here();
    }
    if (!std::isfinite(point.loss)) {
      objective.move_to(origin);
      memory.step = scaled(direction, 0.0);
      return;
    }
    if (last || objective.evaluations() >= options_.evaluations || largest(memory.step) <= options_.tolerance_change ||
        std::abs(point.loss - loss) < options_.tolerance_change)
      return;
  }
}

Lbfgs::Memory Lbfgs::recall() const {
  Memory memory;
  memory.iterations = state_of(0).steps;
  if (memory.iterations == 0) return memory;
  const auto vector = [&](std::size_t place) {
    Vector found;
    for (std::size_t i = 0; i < parameters().size(); ++i) found.emplace_back(state_of(i).arrays[place].second);
    return found;
  };
  memory.gradient = vector(0);
  memory.step = vector(1);
  for (std::size_t place = 2; place < state_of(0).arrays.size(); place += 2)
    memory.pairs.push_back({vector(place), vector(place + 1)});
  return memory;
}

void Lbfgs::remember(const Memory& memory) {
  if (memory.iterations == 0) return;
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    ParameterState& state = state_of(i);
    state.steps = memory.iterations;
    state.arrays.clear();
    std::vector<const Vector*> vectors{&memory.gradient, &memory.step};
    for (const Pair& pair : memory.pairs) vectors.insert(vectors.end(), {&pair.step, &pair.change});
    const std::vector<std::string> names = names_of(memory.pairs.size());
    for (std::size_t n = 0; n < names.size(); ++n) state.arrays.emplace_back(names[n], (*vectors[n])[i].array());
  }
}

std::vector<std::string> Lbfgs::names_of(std::size_t pairs) {
  std::vector<std::string> names{"gradient", "step"};
  for (std::size_t i = 0; i < pairs; ++i) {
    names.push_back("s" + std::to_string(i));
    names.push_back("y" + std::to_string(i));
  }
  return names;
}

std::vector<std::string> Lbfgs::state_names(std::size_t) const { return names_of(0); }

// As many pairs as the state has, but no more than are kept here.
std::vector<std::string> Lbfgs::loaded_names(const ParameterState& state, std::size_t) const {
  const std::size_t pairs = state.arrays.size() < 2 ? 0 : (state.arrays.size() - 2) / 2;
  return names_of(std::min(pairs, static_cast<std::size_t>(options_.history)));
}

void Lbfgs::update(std::span<const Update>) {
  raise("[Lbfgs] a parameter cannot be updated alone: call step(closure)");
}

}  // namespace tutti
