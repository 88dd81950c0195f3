// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/pack_loops.h>

#include <cmath>

namespace tutti {
namespace {

constexpr std::int64_t kGrain = 16384;

/// Calls `f(position, count)` for packs that cover an array, on all threads.
template <class T, class F> void for_all_packs(ThreadPool& threads, std::int64_t size, const F& f) {
  threads.parallel_for(size, kGrain, [&](std::int64_t begin, std::int64_t end) { for_each_pack<T>(begin, end, f); });
}

template <class T> void plain_sgd(ThreadPool& threads, const SgdStep& step, std::int64_t size, T* p, const T* g) {
  const Pack<T> rate(step.rate);
  const Pack<T> decay(step.weight_decay);
  const Pack<T> scale(step.gradient_scale);
  for_all_packs<T>(threads, size, [=](std::int64_t i, std::int64_t count) {
    const Pack<T> old = load_up_to(p + i, count);
    store_up_to(old - rate * (scale * load_up_to(g + i, count) + decay * old), p + i, count);
  });
}

template <class T>
void momentum_sgd(ThreadPool& threads, const SgdStep& step, std::int64_t size, T* p, const T* g, T* v) {
  const Pack<T> rate(step.rate);
  const Pack<T> decay(step.weight_decay);
  const Pack<T> scale(step.gradient_scale);
  const Pack<T> momentum(step.momentum);
  const Pack<T> fresh(1.0 - step.dampening);
  for_all_packs<T>(threads, size,
                   [=, first = step.first, nesterov = step.nesterov](std::int64_t i, std::int64_t count) {
                     const Pack<T> old = load_up_to(p + i, count);
                     const Pack<T> gradient = scale * load_up_to(g + i, count) + decay * old;
                     const Pack<T> velocity = first ? gradient : momentum * load_up_to(v + i, count) + fresh * gradient;
                     store_up_to(velocity, v + i, count);
                     store_up_to(old - rate * (nesterov ? gradient + momentum * velocity : velocity), p + i, count);
                   });
}

template <class T>
void adamw(ThreadPool& threads, const AdamWStep& step, std::int64_t size, T* p, const T* g, T* m, T* v) {
  const auto steps = static_cast<double>(step.step);
  const double square_correction = std::sqrt(1.0 - std::pow(step.beta2, steps));
  // rate * (m / c1) / (sqrt(v / c2) + eps) = rate * sqrt(c2) / c1 * m / (sqrt(v) + eps sqrt(c2))
  const Pack<T> rate(step.rate * square_correction / (1.0 - std::pow(step.beta1, steps)));
  const Pack<T> epsilon(step.epsilon * square_correction);
  const Pack<T> keep(1.0 - step.rate * step.weight_decay);
  const Pack<T> scale(step.gradient_scale);
  const Pack<T> beta1(step.beta1);
  const Pack<T> beta2(step.beta2);
  const Pack<T> rest1(1.0 - step.beta1);
  const Pack<T> rest2(1.0 - step.beta2);
  for_all_packs<T>(threads, size, [=](std::int64_t i, std::int64_t count) {
    const Pack<T> gradient = scale * load_up_to(g + i, count);
    const Pack<T> mean = beta1 * load_up_to(m + i, count) + rest1 * gradient;
    const Pack<T> square = beta2 * load_up_to(v + i, count) + rest2 * gradient * gradient;
    store_up_to(mean, m + i, count);
    store_up_to(square, v + i, count);
    store_up_to(keep * load_up_to(p + i, count) - rate * mean / (sqrt(square) + epsilon), p + i, count);
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
