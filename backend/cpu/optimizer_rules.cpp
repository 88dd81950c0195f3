// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/pack_loops.h>
#include <tutti/backend/optimizer_rule_formulas.h>

#include <vector>

namespace tutti {
namespace {

constexpr std::int64_t kGrain = 16384;

template <class T, class Formula>
void change(ThreadPool& threads, const Formula& formula, const RuleOperands& operands) {
  T* const p = operands.parameter.data<T>();
  const T* const g = operands.gradient.data<T>();
  std::array<T*, Formula::kStates> states;
  for (std::size_t s = 0; s < states.size(); ++s) states[s] = operands.state[s].template data<T>();
  threads.parallel_for(operands.parameter.size(), kGrain, [=](std::int64_t begin, std::int64_t end) {
    for_each_pack<T>(begin, end, [=](std::int64_t i, std::int64_t count) {
      Pack<T> own[Formula::kStates];
      for (std::size_t s = 0; s < states.size(); ++s) own[s] = load_up_to(states[s] + i, count);
      const Pack<T> parameter = formula(load_up_to(p + i, count), load_up_to(g + i, count), own);
      for (std::size_t s = 0; s < states.size(); ++s) store_up_to(own[s], states[s] + i, count);
      store_up_to(parameter, p + i, count);
    });
  });
}

}  // namespace

void CpuBackend::optimizer_step(const OptimizerRule& rule, std::span<const RuleOperands> parameters) {
  std::vector<RuleOperands> all;
  for (const RuleOperands& each : parameters)
    if (each.parameter.size() > 0) all.push_back(each);
  if (all.empty()) return;
  const Device device = all.front().parameter.device();
  const auto work = [rule, &pool = threads(device)](const std::vector<RuleOperands>& operands) {
    visit_floating(operands.front().parameter.dtype(), [&]<class T>(std::type_identity<T>) {
      visit_formula<Pack<T>>(rule, [&](const auto& formula) {
        for (const RuleOperands& each : operands) change<T>(pool, formula, each);
      });
    });
  };
  stream(device).launch("optimizer_step", work, std::move(all));
}

}  // namespace tutti
