// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/optimizer_steps.h>

#include <tutti/backend/cuda/kernels/element_loops.cuh>
#include <tutti/backend/optimizer_formulas.h>
#include <tutti/backend/optimizer_rule_formulas.h>

namespace tutti::cuda_kernels {
namespace {

/// The parameter, its gradient and the optimizer's state: `states` arrays that are read and written.
template <class T, int states> struct Operands {
  T* parameter;
  const T* gradient;
  T* state[states > 0 ? states : 1];

  bool aligned() const {
    auto bits = reinterpret_cast<std::uintptr_t>(parameter) | reinterpret_cast<std::uintptr_t>(gradient);
    for (int i = 0; i < states; ++i) bits |= reinterpret_cast<std::uintptr_t>(state[i]);
    return bits % 16 == 0;
  }
};

// A step gives the new parameter and changes the state.

template <class T> struct PlainSgd {
  SgdFormula<T> formula;
  __device__ __forceinline__ T operator()(T parameter, T gradient, T*) const {
    return formula.plain(parameter, gradient);
  }
};
template <class T> struct MomentumSgd {
  SgdFormula<T> formula;
  __device__ __forceinline__ T operator()(T parameter, T gradient, T* state) const {
    return formula.with_momentum(parameter, gradient, state[0]);
  }
};
template <class T> struct AdamW {
  AdamWFormula<T> formula;
  __device__ __forceinline__ T operator()(T parameter, T gradient, T* state) const {
    return formula(parameter, gradient, state[0], state[1]);
  }
};

template <class T, class Formula> struct Rule {
  Formula formula;
  __device__ __forceinline__ T operator()(T parameter, T gradient, T* state) const {
    return formula(parameter, gradient, state);
  }
};

template <class T, std::uint32_t lanes, int states, class Step>
__device__ __forceinline__ void step_group(const Step& step, const Operands<T, states>& operands, std::int64_t first,
                                           std::uint32_t count) {
  Group<T, lanes> parameter = load_group<lanes>(operands.parameter + first, false, count);
  const Group<T, lanes> gradient = load_group<lanes>(operands.gradient + first, false, count);
  Group<T, lanes> state[states > 0 ? states : 1];
  TUTTI_UNROLL
  for (int s = 0; s < states; ++s) state[s] = load_group<lanes>(operands.state[s] + first, false, count);
  TUTTI_UNROLL
  for (std::uint32_t i = 0; i < lanes; ++i) {
    T own[states > 0 ? states : 1];
    TUTTI_UNROLL
    for (int s = 0; s < states; ++s) own[s] = state[s].lane[i];
    parameter.lane[i] = step(parameter.lane[i], gradient.lane[i], own);
    TUTTI_UNROLL
    for (int s = 0; s < states; ++s) state[s].lane[i] = own[s];
  }
  TUTTI_UNROLL
  for (int s = 0; s < states; ++s) store_group(state[s], operands.state[s] + first, count);
  store_group(parameter, operands.parameter + first, count);
}

template <class T, std::uint32_t lanes, int states, class Step> __global__ void __launch_bounds__(kThreads, 4)
    step_elements(const Step step, const Operands<T, states> operands, std::int64_t size) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads * lanes;
  std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * lanes;
  for (; first < size; first += threads) {
    const std::int64_t left = size - first;
    step_group<T, lanes>(step, operands, first, left < lanes ? static_cast<std::uint32_t>(left) : lanes);
  }
}

template <class T, int states, class Step>
void launch_step(cudaStream_t stream, const Step& step, const Operands<T, states>& operands, std::int64_t size) {
  constexpr std::uint32_t kLanes = kGroupLanes<T>;
  if (operands.aligned())
    launch(step_elements<T, kLanes, states, Step>, blocks_for((size + kLanes - 1) / kLanes), kThreads, stream, step,
           operands, size);
  else
    launch(step_elements<T, 1, states, Step>, blocks_for(size), kThreads, stream, step, operands, size);
}

template <class T> T* typed(std::byte* data) { return reinterpret_cast<T*>(data); }
template <class T> const T* typed(const std::byte* data) { return reinterpret_cast<const T*>(data); }

template <class F> void visit_floating(DType dtype, const F& f) {
  dtype == DType::f64 ? f(double{}) : f(float{});
}

}  // namespace

void launch_sgd_step(cudaStream_t stream, DType dtype, const SgdStep& step, std::int64_t size, std::byte* parameter,
                     const std::byte* gradient, std::byte* momentum) {
  visit_floating(dtype, [&]<class T>(T) {
    const SgdFormula<T> formula(step);
    if (momentum == nullptr)
      launch_step<T, 0>(stream, PlainSgd<T>{formula}, {typed<T>(parameter), typed<T>(gradient), {}}, size);
    else
      launch_step<T, 1>(stream, MomentumSgd<T>{formula},
                        {typed<T>(parameter), typed<T>(gradient), {typed<T>(momentum)}}, size);
  });
}

void launch_adamw_step(cudaStream_t stream, DType dtype, const AdamWStep& step, std::int64_t size,
                       std::byte* parameter, const std::byte* gradient, std::byte* mean, std::byte* square) {
  visit_floating(dtype, [&]<class T>(T) {
    launch_step<T, 2>(stream, AdamW<T>{AdamWFormula<T>(step)},
                      {typed<T>(parameter), typed<T>(gradient), {typed<T>(mean), typed<T>(square)}}, size);
  });
}

void launch_optimizer_step(cudaStream_t stream, DType dtype, const OptimizerRule& rule, std::int64_t size,
                           std::byte* parameter, const std::byte* gradient, std::span<std::byte* const> state) {
  visit_floating(dtype, [&]<class T>(T) {
    visit_formula<T>(rule, [&]<class Formula>(const Formula& formula) {
      Operands<T, Formula::kStates> operands{typed<T>(parameter), typed<T>(gradient), {}};
      for (int s = 0; s < Formula::kStates; ++s) operands.state[s] = typed<T>(state[s]);
      launch_step<T, Formula::kStates>(stream, Rule<T, Formula>{formula}, operands, size);
    });
  });
}

}  // namespace tutti::cuda_kernels
