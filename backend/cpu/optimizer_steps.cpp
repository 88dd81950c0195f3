// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/pack_loops.h>
#include <tutti/backend/optimizer_formulas.h>

namespace tutti {
namespace {

constexpr std::int64_t kGrain = 16384;

/// Calls `f(position, count)` for packs that cover an array, on all threads.
template <class T, class F> void for_all_packs(ThreadPool& threads, std::int64_t size, const F& f) {
  threads.parallel_for(size, kGrain, [&](std::int64_t begin, std::int64_t end) { for_each_pack<T>(begin, end, f); });
}

template <class T> void plain_sgd(ThreadPool& threads, const SgdStep& step, std::int64_t size, T* p, const T* g) {
  const SgdFormula<Pack<T>> formula(step);
  for_all_packs<T>(threads, size, [=](std::int64_t i, std::int64_t count) {
    store_up_to(formula.plain(load_up_to(p + i, count), load_up_to(g + i, count)), p + i, count);
  });
}

template <class T>
void momentum_sgd(ThreadPool& threads, const SgdStep& step, std::int64_t size, T* p, const T* g, T* v) {
  const SgdFormula<Pack<T>> formula(step);
  for_all_packs<T>(threads, size, [=](std::int64_t i, std::int64_t count) {
    Pack<T> velocity = load_up_to(v + i, count);
    const Pack<T> parameter = formula.with_momentum(load_up_to(p + i, count), load_up_to(g + i, count), velocity);
    store_up_to(velocity, v + i, count);
    store_up_to(parameter, p + i, count);
  });
}

template <class T>
void adamw(ThreadPool& threads, const AdamWStep& step, std::int64_t size, T* p, const T* g, T* m, T* v) {
  const AdamWFormula<Pack<T>> formula(step);
  for_all_packs<T>(threads, size, [=](std::int64_t i, std::int64_t count) {
    Pack<T> mean = load_up_to(m + i, count);
    Pack<T> square = load_up_to(v + i, count);
    const Pack<T> parameter = formula(load_up_to(p + i, count), load_up_to(g + i, count), mean, square);
    store_up_to(mean, m + i, count);
    store_up_to(square, v + i, count);
    store_up_to(parameter, p + i, count);
  });
}

}  // namespace

void CpuBackend::sgd_step(const SgdStep& step, const Array& parameter, const Array& gradient, const Array& momentum) {
  const auto work = [step, &pool = threads(parameter.device())](const Array& p, const Array& g, const Array& v) {
    visit_floating(p.dtype(), [&]<class T>(std::type_identity<T>) {
      if (v.defined())
        momentum_sgd(pool, step, p.size(), p.data<T>(), g.data<T>(), v.data<T>());
      else
        plain_sgd(pool, step, p.size(), p.data<T>(), g.data<T>());
    });
  };
  if (parameter.size() > 0)
    stream(parameter.device()).launch("sgd_step", work, parameter, gradient.contiguous(), momentum);
}

void CpuBackend::adamw_step(const AdamWStep& step, const Array& parameter, const Array& gradient, const Array& mean,
                            const Array& square) {
  const auto work = [step, &pool = threads(parameter.device())](const Array& p, const Array& g, const Array& m,
                                                                const Array& v) {
    visit_floating(p.dtype(), [&]<class T>(std::type_identity<T>) {
      adamw(pool, step, p.size(), p.data<T>(), g.data<T>(), m.data<T>(), v.data<T>());
    });
  };
  if (parameter.size() > 0)
    stream(parameter.device()).launch("adamw_step", work, parameter, gradient.contiguous(), mean, square);
}

}  // namespace tutti
