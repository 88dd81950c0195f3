// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/copy.h>
#include <tutti/backend/cuda/kernels/elementwise.h>
#include <tutti/backend/cuda/plans/element_plan.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>

#include <cassert>
#include <vector>

namespace tutti {
namespace {

using elementwise::kNames;

const cuda_kernels::ElementwiseLaunchers& launchers_of(DType dtype) {
  if (dtype == DType::bf16) return cuda_kernels::elementwise_launchers<BFloat16>();
  if (dtype == DType::f16) return cuda_kernels::elementwise_launchers<Float16>();
  return visit_computed_dtype(dtype, []<class T>(std::type_identity<T>) -> const cuda_kernels::ElementwiseLaunchers& {
    return cuda_kernels::elementwise_launchers<T>();
  });
}

cuda_kernels::ElementwiseLauncher find_launcher(const ElementwiseCall& call, DType dtype) {
  const cuda_kernels::ElementwiseLaunchers& launchers = launchers_of(dtype);
  const cuda_kernels::ElementwiseLauncher launcher = launchers[call.operation][static_cast<std::size_t>(call.part)];
  if (launcher == nullptr)
    raise<DTypeError>("[{}] has no {} for {}", kNames[call.operation],
                      call.part == ElementwiseCall::Part::value ? "value" : "gradient", to_string(dtype));
  return launcher;
}

}  // namespace

void CudaBackend::elementwise(const ElementwiseCall& call, std::span<const Array> inputs, const Array& output) {
  constexpr std::size_t kMostInputs = ElementPlan::kOperands - 1;
  assert(inputs.size() <= kMostInputs);
  const DType dtype = inputs[0].dtype();
  if (dtype == DType::i8 || dtype == DType::u8) return elementwise_widened(call, inputs, output);
  const cuda_kernels::ElementwiseLauncher launcher = find_launcher(call, dtype);
  const Array* operands[kMostInputs]{};
  for (std::size_t i = 0; i < inputs.size(); ++i) operands[i] = &inputs[i];
  stream(output.device()).launch(kNames[call.operation], [&](cudaStream_t queue) {
    for_each_batch(kNames[call.operation], output, std::span(operands, inputs.size()),
                   [&](const ElementBatch& batch) { launcher(queue, call, batch); });
  });
}

void CudaBackend::elementwise_widened(const ElementwiseCall& call, std::span<const Array> inputs, const Array& output) {
  std::vector<Array> wide;
  for (const Array& input : inputs) wide.push_back(widened(input));
  if (!is_narrow(output)) return elementwise(call, wide, output);  // a comparison
  const Array result = Array::empty(output.shape(), computed_in(output.dtype()), output.device());
  elementwise(call, wide, result);
  cast(result, output);
}

void CudaBackend::where(const Array& mask, const Array& a, const Array& b, const Array& output) {
  const Array* const inputs[] = {&mask, &a, &b};
  stream(output.device()).launch("where", [&](cudaStream_t queue) {
    for_each_batch("where", output, inputs, [&](const ElementBatch& batch) {
      cuda_kernels::launch_where(queue, size_of(output.dtype()), batch);
    });
  });
}

}  // namespace tutti
