// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/operations/elementwise_kernels.h>
#include <tutti/backend/cpu/packs/element_runs.h>
#include <tutti/backend/cpu/packs/widened_runs.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>

namespace tutti {
namespace {

using elementwise::kNames;

constexpr std::int64_t kChainGrain = 32768;  // elements that one thread takes at a time
constexpr std::int64_t kChainTile = 2048;    // elements that a chain is done for at a time, to stay in a cache

ElementwiseKernel find_kernel(const ElementwiseCall& call, DType dtype) {
  const ElementwiseKernels& kernels = visit_computed_dtype(
      computed_in(dtype),
      []<class T>(std::type_identity<T>) -> const ElementwiseKernels& { return elementwise_kernels<T>(); });
  const ElementwiseKernel kernel = kernels[call.operation][static_cast<std::size_t>(call.part)];
  if (kernel == nullptr)
    raise<DTypeError>("[{}] has no {} for {}", kNames[call.operation],
                      call.part == ElementwiseCall::Part::value ? "value" : "gradient", to_string(dtype));
  return kernel;
}

/// The input itself, or `buffer` filled with its one element; where it has to go on when `position` elements are done.
template <class T, std::size_t N>
const T* spread(const ElementRun& run, std::size_t input, T (&buffer)[N], std::int64_t position) {
  if (!run.repeated[input]) return run.from<T>(input) + position;
  std::fill_n(buffer, std::min<std::int64_t>(N, run.count), *run.from<T>(input));
  return buffer;
}

template <class T> void choose(const ElementRun& run) {
  constexpr std::int64_t kChunk = 256;
  bool masks[kChunk];
  T lhs[kChunk];
  T rhs[kChunk];
  const bool any_repeated = run.repeated[0] || run.repeated[1] || run.repeated[2];
  const std::int64_t chunk = any_repeated ? kChunk : run.count;
  for (std::int64_t begin = 0; begin < run.count; begin += chunk) {
    const std::int64_t count = std::min(chunk, run.count - begin);
    const bool* mask = spread(run, 0, masks, begin);
    const T* a = spread(run, 1, lhs, begin);
    const T* b = spread(run, 2, rhs, begin);
    T* to = run.to<T>() + begin;
    for (std::int64_t i = 0; i < count; ++i) to[i] = mask[i] ? a[i] : b[i];
  }
}

}  // namespace

void CpuBackend::elementwise(const ElementwiseCall& call, std::span<const Array> inputs, const Array& output) {
  const ElementwiseKernel kernel = find_kernel(call, inputs[0].dtype());
  const auto work = [call, kernel, &pool = threads(output.device())](const Array& to, const auto&... from) {
    const Array* const operands[] = {&from...};
    const auto compute = [&](const ElementRun& run) { kernel(call, run); };
    const DType dtype = operands[0]->dtype();
    if (is_narrow(dtype))
      for_each_run(pool, to, operands, [&](const ElementRun& run) { run_widened(dtype, to.dtype(), run, compute); });
    else
      for_each_run(pool, to, operands, compute);
  };
  const std::string_view name = kNames[call.operation];
  CpuStream& queue = stream(output.device());
  switch (inputs.size()) {
    case 1: return queue.launch(name, work, output, inputs[0]);
    case 2: return queue.launch(name, work, output, inputs[0], inputs[1]);
    default: assert(inputs.size() == 3); return queue.launch(name, work, output, inputs[0], inputs[1], inputs[2]);
  }
}

void CpuBackend::elementwise_chain(std::span<const ElementwiseStep> steps) {
  const Array& result = steps.back().output;
  const auto run_step = [](const ElementwiseStep& step, std::int64_t begin, std::int64_t count) {
    std::array<const Array*, ElementRun::kInputs> operands{};
    for (std::size_t i = 0; i < step.inputs.size(); ++i) operands[i] = &step.inputs[i];
    const DType dtype = operands[0]->dtype();
    const ElementwiseKernel kernel = find_kernel(step.call, dtype);
    const auto compute = [&](const ElementRun& run) { kernel(step.call, run); };
    const ElementRun run = flat_run(step.output, std::span(operands.data(), step.inputs.size()), begin, count);
    if (is_narrow(dtype))
      run_widened(dtype, step.output.dtype(), run, compute);
    else
      compute(run);
  };
  const auto work = [steps, run_step, size = result.size(), &pool = threads(result.device())] {
    pool.parallel_for(size, kChainGrain, [&](std::int64_t begin, std::int64_t end) {
      for (; begin < end; begin += kChainTile)
        for (const ElementwiseStep& step : steps) run_step(step, begin, std::min(kChainTile, end - begin));
    });
  };
  stream(result.device()).launch("elementwise chain", work);
}

void CpuBackend::where(const Array& mask, const Array& a, const Array& b, const Array& output) {
  stream(output.device())
      .launch(
          "where",
          [&pool = threads(output.device())](const Array& to, const Array& condition, const Array& x, const Array& y) {
            const Array* const operands[] = {&condition, &x, &y};
            visit_dtype(to.dtype(), [&]<class T>(std::type_identity<T>) {
              for_each_run(pool, to, operands, [](const ElementRun& run) { choose<T>(run); });
            });
          },
          output, mask, a, b);
}

}  // namespace tutti
