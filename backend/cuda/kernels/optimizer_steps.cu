// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/optimizer_steps.h>

#include <tutti/backend/cuda/kernels/parts/element_loops.cuh>
#include <tutti/backend/formulas/optimizer_rule_formulas.h>

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

template <class T, std::uint32_t lanes, int states, class Formula>
__device__ __forceinline__ void step_group(const Formula& formula, const Operands<T, states>& operands,
                                           std::int64_t first, std::uint32_t count) {
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
    parameter.lane[i] = formula(parameter.lane[i], gradient.lane[i], own);
    TUTTI_UNROLL
    for (int s = 0; s < states; ++s) state[s].lane[i] = own[s];
  }
  TUTTI_UNROLL
  for (int s = 0; s < states; ++s) store_group(state[s], operands.state[s] + first, count);
  store_group(parameter, operands.parameter + first, count);
}

template <std::uint32_t lanes, class T, int states, class Formula>
__device__ __forceinline__ void step_chunk(const Formula& formula, const Operands<T, states>& operands,
                                           std::int64_t begin) {
  const std::int64_t end = begin + kChunk < operands.size ? begin + kChunk : operands.size;
  for (std::int64_t first = begin + threadIdx.x * lanes; first < end; first += kThreads * lanes) {
    const std::int64_t left = end - first;
    step_group<T, lanes>(formula, operands, first, left < lanes ? static_cast<std::uint32_t>(left) : lanes);
  }
}

template <class T, int states, class Formula> __global__ void __launch_bounds__(kThreads, 4)
    step_parameters(const __grid_constant__ Formula formula, const __grid_constant__ Parameters<T, states> parameters) {
  for (std::uint32_t chunk = blockIdx.x; chunk < parameters.chunks; chunk += gridDim.x) {
    std::uint32_t low = 0;  // the parameter is the last one that begins at or before the chunk
    for (std::uint32_t high = parameters.count; high - low > 1;) {
      const std::uint32_t middle = (low + high) / 2;
      (parameters.first_chunk[middle] <= chunk ? low : high) = middle;
    }
    const std::int64_t begin = static_cast<std::int64_t>(chunk - parameters.first_chunk[low]) * kChunk;
    if (parameters.aligned[low])
      step_chunk<kGroupLanes<T>>(formula, parameters.of[low], begin);
    else
      step_chunk<1>(formula, parameters.of[low], begin);
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

template <class T, int states, class Formula>
void launch_steps(cudaStream_t stream, const Formula& formula, std::span<const ParameterMemory> all) {
  static_assert(sizeof(Formula) + sizeof(Parameters<T, states>) <= 4096);
  while (!all.empty()) {
    Parameters<T, states> parameters;
    const std::size_t count = all.size() < parameters.kMost ? all.size() : parameters.kMost;
    for (const ParameterMemory& memory : all.first(count)) add(parameters, memory);
    launch(step_parameters<T, states, Formula>, blocks_for(parameters.chunks, 1), kThreads, stream, formula,
           parameters);
    all = all.subspan(count);
  }
}

template <class F> void visit_floating(DType dtype, const F& f) { dtype == DType::f64 ? f(double{}) : f(float{}); }

}  // namespace

void launch_optimizer_step(cudaStream_t stream, DType dtype, const OptimizerRule& rule,
                           std::span<const ParameterMemory> all) {
  visit_floating(dtype, [&]<class T>(T) {
    visit_formula<T>(
        rule, [&]<class Formula>(const Formula& formula) { launch_steps<T, Formula::kStates>(stream, formula, all); });
  });
}

}  // namespace tutti::cuda_kernels
