// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/optimizer_steps.h>

#include <tutti/backend/cuda/kernels/element_loops.cuh>
#include <tutti/backend/optimizer_formulas.h>
#include <tutti/backend/optimizer_rule_formulas.h>

namespace tutti::cuda_kernels {
namespace {

/// The parameter, its gradient and the optimizer's state: `states` arrays that are read and written.
template <class T, int states> struct Operands {
  std::int64_t size;
  T* parameter;
  const T* gradient;
  T* state[states > 0 ? states : 1];
};

constexpr std::uint32_t kChunk = 2048;  // elements that a block takes at a time, all of one parameter

/// What one launch changes: as many parameters as fit into the 4 KiB that a kernel's arguments may have, beside the
/// step. The chunks of a parameter are numbered from `first_chunk` on.
template <class T, int states> struct Parameters {
  static constexpr std::size_t kBytes = 4096 - 256;
  static constexpr std::uint32_t kMost = kBytes / (sizeof(Operands<T, states>) + 2 * sizeof(std::uint32_t));

  std::uint32_t count = 0;
  std::uint32_t chunks = 0;
  std::uint32_t first_chunk[kMost];
  bool aligned[kMost];  // to 16 bytes, all arrays
  Operands<T, states> of[kMost];
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

template <std::uint32_t lanes, class T, int states, class Step>
__device__ __forceinline__ void step_chunk(const Step& step, const Operands<T, states>& operands, std::int64_t begin) {
  const std::int64_t end = begin + kChunk < operands.size ? begin + kChunk : operands.size;
  for (std::int64_t first = begin + threadIdx.x * lanes; first < end; first += kThreads * lanes) {
    const std::int64_t left = end - first;
    step_group<T, lanes>(step, operands, first, left < lanes ? static_cast<std::uint32_t>(left) : lanes);
  }
}

template <class T, int states, class Step> __global__ void __launch_bounds__(kThreads, 4)
    step_parameters(const __grid_constant__ Step step, const __grid_constant__ Parameters<T, states> parameters) {
  for (std::uint32_t chunk = blockIdx.x; chunk < parameters.chunks; chunk += gridDim.x) {
    std::uint32_t low = 0;  // the parameter is the last one that begins at or before the chunk
    for (std::uint32_t high = parameters.count; high - low > 1;) {
      const std::uint32_t middle = (low + high) / 2;
      (parameters.first_chunk[middle] <= chunk ? low : high) = middle;
    }
    const std::int64_t begin = static_cast<std::int64_t>(chunk - parameters.first_chunk[low]) * kChunk;
    if (parameters.aligned[low])
      step_chunk<kGroupLanes<T>>(step, parameters.of[low], begin);
    else
      step_chunk<1>(step, parameters.of[low], begin);
  }
}

template <class T> T* typed(std::byte* data) { return reinterpret_cast<T*>(data); }
template <class T> const T* typed(const std::byte* data) { return reinterpret_cast<const T*>(data); }

template <class T, int states> void add(Parameters<T, states>& parameters, const ParameterMemory& memory) {
  const std::uint32_t i = parameters.count++;
  Operands<T, states>& operands = parameters.of[i];
  operands.size = memory.size;
  operands.parameter = typed<T>(memory.parameter);
  operands.gradient = typed<T>(memory.gradient);
  auto bits = reinterpret_cast<std::uintptr_t>(memory.parameter) | reinterpret_cast<std::uintptr_t>(memory.gradient);
  for (int s = 0; s < states; ++s) {
    operands.state[s] = typed<T>(memory.state[s]);
    bits |= reinterpret_cast<std::uintptr_t>(memory.state[s]);
  }
  parameters.aligned[i] = bits % 16 == 0;
  parameters.first_chunk[i] = parameters.chunks;
  parameters.chunks += static_cast<std::uint32_t>((memory.size + kChunk - 1) / kChunk);
}

template <class T, int states, class Step>
void launch_steps(cudaStream_t stream, const Step& step, std::span<const ParameterMemory> all) {
  static_assert(sizeof(Step) + sizeof(Parameters<T, states>) <= 4096);
  while (!all.empty()) {
    Parameters<T, states> parameters;
    const std::size_t count = all.size() < parameters.kMost ? all.size() : parameters.kMost;
    for (const ParameterMemory& memory : all.first(count)) add(parameters, memory);
    launch(step_parameters<T, states, Step>, blocks_for(parameters.chunks, 1), kThreads, stream, step, parameters);
    all = all.subspan(count);
  }
}

template <class F> void visit_floating(DType dtype, const F& f) {
  dtype == DType::f64 ? f(double{}) : f(float{});
}

}  // namespace

void launch_sgd_steps(cudaStream_t stream, DType dtype, const SgdStep& step, std::span<const ParameterMemory> all) {
  visit_floating(dtype, [&]<class T>(T) {
    const SgdFormula<T> formula(step);
    if (all.front().state[0] == nullptr)
      launch_steps<T, 0>(stream, PlainSgd<T>{formula}, all);
    else
      launch_steps<T, 1>(stream, MomentumSgd<T>{formula}, all);
  });
}

void launch_adamw_steps(cudaStream_t stream, DType dtype, const AdamWStep& step, std::span<const ParameterMemory> all) {
  visit_floating(dtype, [&]<class T>(T) { launch_steps<T, 2>(stream, AdamW<T>{AdamWFormula<T>(step)}, all); });
}

void launch_optimizer_step(cudaStream_t stream, DType dtype, const OptimizerRule& rule,
                           std::span<const ParameterMemory> all) {
  visit_floating(dtype, [&]<class T>(T) {
    visit_formula<T>(rule, [&]<class Formula>(const Formula& formula) {
      launch_steps<T, Formula::kStates>(stream, Rule<T, Formula>{formula}, all);
    });
  });
}

}  // namespace tutti::cuda_kernels
