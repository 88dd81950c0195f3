// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/cublas_check.h>
#include <tutti/backend/cuda/matmul_plan.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string_view>

namespace tutti {
namespace {

/// TUTTI_CUDA_TF32=1: f32 products are faster and have the 10-bit mantissa of TF32 in their factors.
bool tf32_from_environment() {
  static const bool allowed = [] {
    const char* text = std::getenv("TUTTI_CUDA_TF32");
    return text != nullptr && std::string_view(text) == "1";
  }();
  return allowed;
}

/// What all addresses of the calls are multiples of, in bytes: cuBLAS does not look at them itself.
std::uint32_t alignment_of(const MatmulPlan& plan, const Array& lhs, const Array& rhs, const Array& output) {
  constexpr std::uint64_t kEnough = 256;
  std::uint64_t bits = kEnough;
  for (const Array* operand : {&lhs, &rhs, &output}) bits |= reinterpret_cast<std::uintptr_t>(operand->raw_data());
  const auto add = [&bits, size = size_of(output.dtype())](const MatmulPlan::Axis& axis) {
    for (const std::int64_t stride : {axis.first, axis.second, axis.output})
      bits |= static_cast<std::uint64_t>(stride) * size;
  };
  add(plan.batch);
  for (const MatmulPlan::Axis& axis : plan.outer) add(axis);
  return std::uint32_t{1} << static_cast<unsigned>(std::countr_zero(bits));
}

}  // namespace

void CudaBackend::matmul(const Array& lhs, const Array& rhs, const Array& output) {
  static constexpr std::string_view kName = "matmul";
  const Device device = output.device();
  Context& own = context(device);
  const MatmulPlan plan(lhs, rhs, output);
  const bool is_double = output.dtype() == DType::f64;
  const auto size = static_cast<std::int64_t>(size_of(output.dtype()));
  CublasProblem problem{output.dtype(),
                        output.dtype() == DType::f32 && tf32_from_environment(),
                        plan.first,
                        plan.second,
                        plan.output,
                        0,
                        alignment_of(plan, lhs, rhs, output)};
  const double one = 1.0;
  const float one_f32 = 1.0F;
  const double zero = 0.0;  // all its bits are zero: it is f32's as well
  const void* const scale = is_double ? static_cast<const void*>(&one) : &one_f32;
  own.compute.launch(kName, [&](cudaStream_t stream) {
    for (std::int64_t i = 0; i < plan.calls(); ++i) {
      const MatmulPlan::Call call = plan.call(i);
      problem.batch = call.batch;
      CublasDescriptors descriptors(device, problem);
      const CublasHandles::Choice choice = own.cublas.choose(problem, descriptors);
      const Storage scratch = workspace(device, choice.workspace);
      std::byte* const to = output.raw_data() + call.output * size;
      TUTTI_CUBLAS(
          device, kName,
          cublasLtMatmul(own.cublas.handle(), &descriptors.operation, scale, rhs.raw_data() + call.first * size,
                         &descriptors.first, lhs.raw_data() + call.second * size, &descriptors.second, &zero, to,
                         &descriptors.output, to, &descriptors.output, &choice.algorithm, scratch.data(),
                         choice.workspace, stream));
    }
  });
}

}  // namespace tutti
