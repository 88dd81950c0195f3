// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/packs/pack_loops.h>
#include <tutti/backend/formulas/optimizer_rule_formulas.h>
#include <tutti/backend/memory/thread_cache.h>

#include <algorithm>
#include <array>

namespace tutti {
namespace {

constexpr std::int64_t kStepGrain = 16384;

/// Parameters laid end to end, so that many small ones are one loop over all threads. Each begins at a multiple of a
/// pack and of a cache line, as do the blocks of the loop.
class ParameterLine {
 public:
  explicit ParameterLine(const CachedVector<RuleOperands>& parameters) : parameters_(parameters) {
    begins_.reserve(parameters.size());
    for (const RuleOperands& each : parameters) {
      begins_.push_back(length_);
      length_ += (each.parameter.size() + kStep - 1) / kStep * kStep;
    }
  }

  /// Calls `f(operands, begin, end)` for parts that cover each parameter, on all threads.
  template <class F> void for_all_parts(ThreadPool& threads, const F& f) const {
    threads.parallel_for(length_, kStepGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto after = std::upper_bound(begins_.begin(), begins_.end(), begin);
      for (auto i = static_cast<std::size_t>(after - begins_.begin()) - 1; i < begins_.size() && begins_[i] < end; ++i)
        f(parameters_[i], std::max<std::int64_t>(0, begin - begins_[i]),
          std::min(parameters_[i].parameter.size(), end - begins_[i]));
    });
  }

 private:
  static constexpr std::int64_t kStep = 64;
  const CachedVector<RuleOperands>& parameters_;
  CachedVector<std::int64_t> begins_;
  std::int64_t length_ = 0;
};

template <class T, class Formula>
void step_by(ThreadPool& threads, const Formula& formula, const CachedVector<RuleOperands>& parameters) {
  ParameterLine(parameters).for_all_parts(threads, [&](const RuleOperands& each, std::int64_t begin, std::int64_t end) {
    T* const p = each.parameter.data<T>();
    const T* const g = each.gradient.data<T>();
    std::array<T*, Formula::kStates> states;
    for (std::size_t s = 0; s < states.size(); ++s) states[s] = each.state[s].template data<T>();
    for_each_pack<T>(begin, end, [=](std::int64_t i, std::int64_t count) {
      std::array<Pack<T>, Formula::kStates> own;
      for (std::size_t s = 0; s < states.size(); ++s) own[s] = load_up_to(states[s] + i, count);
      const Pack<T> parameter = formula(load_up_to(p + i, count), load_up_to(g + i, count), own.data());
      for (std::size_t s = 0; s < states.size(); ++s) store_up_to(own[s], states[s] + i, count);
      store_up_to(parameter, p + i, count);
    });
  });
}

CachedVector<RuleOperands> with_contiguous_gradients(std::span<const RuleOperands> parameters) {
  CachedVector<RuleOperands> operands;
  operands.reserve(parameters.size());
  for (const RuleOperands& each : parameters)
    if (each.parameter.size() > 0) {
      operands.push_back(each);
      if (!each.gradient.is_contiguous()) operands.back().gradient = each.gradient.contiguous();
    }
  return operands;
}

}  // namespace

void CpuBackend::optimizer_step(const OptimizerRule& rule, std::span<const RuleOperands> parameters) {
  const CachedVector<RuleOperands> operands = with_contiguous_gradients(parameters);
  if (operands.empty()) return;
  const Device device = operands.front().parameter.device();
  const auto work = [rule, &pool = threads(device)](const CachedVector<RuleOperands>& all) {
    visit_floating(all.front().parameter.dtype(), [&]<class T>(std::type_identity<T>) {
      visit_formula<Pack<T>>(rule, [&](const auto& formula) { step_by<T>(pool, formula, all); });
    });
  };
  stream(device).launch("optimizer_step", work, operands);
}

}  // namespace tutti
