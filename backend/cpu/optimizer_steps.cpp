// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/pack_loops.h>
#include <tutti/backend/optimizer_formulas.h>
#include <tutti/backend/optimizer_rule_formulas.h>

#include <algorithm>
#include <array>
#include <vector>

namespace tutti {
namespace {

constexpr std::int64_t kGrain = 16384;

/// Parameters laid end to end, so that many small ones are one loop over all threads. Each begins at a multiple of a
/// pack and of a cache line, as do the blocks of the loop.
template <class Operands> class ParameterLine {
 public:
  explicit ParameterLine(const std::vector<Operands>& parameters) : parameters_(parameters) {
    begins_.reserve(parameters.size());
    for (const Operands& each : parameters) {
      begins_.push_back(length_);
      length_ += (each.parameter.size() + kStep - 1) / kStep * kStep;
    }
  }

  /// Calls `f(operands, begin, end)` for parts that cover each parameter, on all threads.
  template <class F> void for_all_parts(ThreadPool& threads, const F& f) const {
    threads.parallel_for(length_, kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto after = std::upper_bound(begins_.begin(), begins_.end(), begin);
      for (auto i = static_cast<std::size_t>(after - begins_.begin()) - 1; i < begins_.size() && begins_[i] < end; ++i)
        f(parameters_[i], std::max<std::int64_t>(0, begin - begins_[i]),
          std::min(parameters_[i].parameter.size(), end - begins_[i]));
    });
  }

 private:
  static constexpr std::int64_t kStep = 64;
  const std::vector<Operands>& parameters_;
  std::vector<std::int64_t> begins_;
  std::int64_t length_ = 0;
};

template <class T> void sgd(ThreadPool& threads, const SgdStep& step, const std::vector<SgdOperands>& parameters) {
  const SgdFormula<Pack<T>> formula(step);
  const bool has_momentum = parameters.front().momentum.defined();
  ParameterLine(parameters).for_all_parts(threads, [&](const SgdOperands& each, std::int64_t begin, std::int64_t end) {
    T* const p = each.parameter.data<T>();
    const T* const g = each.gradient.data<T>();
    T* const v = has_momentum ? each.momentum.data<T>() : nullptr;
    if (v == nullptr)
      return for_each_pack<T>(begin, end, [=](std::int64_t i, std::int64_t count) {
        store_up_to(formula.plain(load_up_to(p + i, count), load_up_to(g + i, count)), p + i, count);
      });
    for_each_pack<T>(begin, end, [=](std::int64_t i, std::int64_t count) {
      Pack<T> velocity = load_up_to(v + i, count);
      const Pack<T> parameter = formula.with_momentum(load_up_to(p + i, count), load_up_to(g + i, count), velocity);
      store_up_to(velocity, v + i, count);
      store_up_to(parameter, p + i, count);
    });
  });
}

template <class T>
void adamw(ThreadPool& threads, const AdamWStep& step, const std::vector<AdamWOperands>& parameters) {
  const AdamWFormula<Pack<T>> formula(step);
  ParameterLine(parameters)
      .for_all_parts(threads, [&](const AdamWOperands& each, std::int64_t begin, std::int64_t end) {
        T* const p = each.parameter.data<T>();
        const T* const g = each.gradient.data<T>();
        T* const m = each.mean.data<T>();
        T* const v = each.square.data<T>();
        for_each_pack<T>(begin, end, [=](std::int64_t i, std::int64_t count) {
          Pack<T> mean = load_up_to(m + i, count);
          Pack<T> square = load_up_to(v + i, count);
          const Pack<T> parameter = formula(load_up_to(p + i, count), load_up_to(g + i, count), mean, square);
          store_up_to(mean, m + i, count);
          store_up_to(square, v + i, count);
          store_up_to(parameter, p + i, count);
        });
      });
}

template <class T, class Formula>
void step_by(ThreadPool& threads, const Formula& formula, const std::vector<RuleOperands>& parameters) {
  ParameterLine(parameters).for_all_parts(threads, [&](const RuleOperands& each, std::int64_t begin, std::int64_t end) {
    T* const p = each.parameter.data<T>();
    const T* const g = each.gradient.data<T>();
    std::array<T*, Formula::kStates> states;
    for (std::size_t s = 0; s < states.size(); ++s) states[s] = each.state[s].template data<T>();
    for_each_pack<T>(begin, end, [=](std::int64_t i, std::int64_t count) {
      Pack<T> own[Formula::kStates];
      for (std::size_t s = 0; s < states.size(); ++s) own[s] = load_up_to(states[s] + i, count);
      const Pack<T> parameter = formula(load_up_to(p + i, count), load_up_to(g + i, count), own);
      for (std::size_t s = 0; s < states.size(); ++s) store_up_to(own[s], states[s] + i, count);
      store_up_to(parameter, p + i, count);
    });
  });
}

template <class Operands> std::vector<Operands> with_contiguous_gradients(std::span<const Operands> parameters) {
  std::vector<Operands> operands;
  operands.reserve(parameters.size());
  for (const Operands& each : parameters)
    if (each.parameter.size() > 0) {
      operands.push_back(each);
      if (!each.gradient.is_contiguous()) operands.back().gradient = each.gradient.contiguous();
    }
  return operands;
}

}  // namespace

void CpuBackend::sgd_steps(const SgdStep& step, std::span<const SgdOperands> parameters) {
  const std::vector<SgdOperands> operands = with_contiguous_gradients(parameters);
  if (operands.empty()) return;
  const Device device = operands.front().parameter.device();
  const auto work = [step, &pool = threads(device)](const std::vector<SgdOperands>& all) {
    visit_floating(all.front().parameter.dtype(), [&]<class T>(std::type_identity<T>) { sgd<T>(pool, step, all); });
  };
  stream(device).launch("sgd_step", work, operands);
}

void CpuBackend::adamw_steps(const AdamWStep& step, std::span<const AdamWOperands> parameters) {
  const std::vector<AdamWOperands> operands = with_contiguous_gradients(parameters);
  if (operands.empty()) return;
  const Device device = operands.front().parameter.device();
  const auto work = [step, &pool = threads(device)](const std::vector<AdamWOperands>& all) {
    visit_floating(all.front().parameter.dtype(), [&]<class T>(std::type_identity<T>) { adamw<T>(pool, step, all); });
  };
  stream(device).launch("adamw_step", work, operands);
}

void CpuBackend::optimizer_step(const OptimizerRule& rule, std::span<const RuleOperands> parameters) {
  const std::vector<RuleOperands> operands = with_contiguous_gradients(parameters);
  if (operands.empty()) return;
  const Device device = operands.front().parameter.device();
  const auto work = [rule, &pool = threads(device)](const std::vector<RuleOperands>& all) {
    visit_floating(all.front().parameter.dtype(), [&]<class T>(std::type_identity<T>) {
      visit_formula<Pack<T>>(rule, [&](const auto& formula) { step_by<T>(pool, formula, all); });
    });
  };
  stream(device).launch("optimizer_step", work, operands);
}

void CpuBackend::sgd_step(const SgdStep& step, const Array& parameter, const Array& gradient, const Array& momentum) {
  const SgdOperands one[] = {{parameter, gradient, momentum}};
  sgd_steps(step, one);
}

void CpuBackend::adamw_step(const AdamWStep& step, const Array& parameter, const Array& gradient, const Array& mean,
                            const Array& square) {
  const AdamWOperands one[] = {{parameter, gradient, mean, square}};
  adamw_steps(step, one);
}

}  // namespace tutti
