// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/libraries/cublas_check.h>
#include <tutti/backend/cuda/libraries/tf32.h>
#include <tutti/backend/cuda/plans/matmul_plan.h>

#include <algorithm>
#include <bit>
#include <string_view>

namespace tutti {
namespace {

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

CublasProblem problem_of(const MatmulPlan& plan, const Array& lhs, const Array& rhs, const Array& output) {
  return {output.dtype(),
          output.dtype() == DType::f32 && tf32_allowed(),
          plan.first,
          plan.second,
          plan.output,
          plan.batch.length,
          alignment_of(plan, lhs, rhs, output)};
}

bool is_aligned(const Array& bias) { return reinterpret_cast<std::uintptr_t>(bias.raw_data()) % 16 == 0; }

/// What cuBLAS does behind a product in the output's own pass, of what is asked for.
struct Fused {
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  bool adds_bias = false;
  LinearActivation left;  // to be applied afterwards

  Fused(DType dtype, const Array& bias, LinearActivation activation) : left(activation) {
    const bool can = dtype != DType::f64;  // which has no epilogues
    adds_bias = can && bias.defined() && is_aligned(bias);
    // Relu comes after the bias. cuBLAS's GELU is the approximation by tanh, ours is exact.
    const bool relu = can && activation == LinearActivation::relu && adds_bias == bias.defined();
    if (relu) left = LinearActivation::none;
    if (adds_bias)
      epilogue = relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    else if (relu)
      epilogue = CUBLASLT_EPILOGUE_RELU;
  }
};

}  // namespace

// False, and nothing done, if cuBLAS cannot do what comes after the product.
bool CudaBackend::multiply(std::string_view name, const MatmulPlan& plan, CublasProblem problem, const Array& lhs,
                           const Array& rhs, const Array& output, const void* bias) {
  const Device device = output.device();
  Context& own = context(device);
  const auto size = static_cast<std::int64_t>(size_of(output.dtype()));
  const double one = 1.0;
  const float one_f32 = 1.0F;
  const double zero = 0.0;  // all its bits are zero: it is f32's as well
  const void* const scale = output.dtype() == DType::f64 ? static_cast<const void*>(&one) : &one_f32;
  bool done = true;
  stream(device).launch(name, [&](cudaStream_t queue) {
    for (std::int64_t i = 0; i < plan.calls() && done; ++i) {
      const MatmulPlan::Call call = plan.call(i);
      problem.batch = call.batch;
      CublasDescriptors descriptors(device, problem, bias);
      const std::optional<CublasHandles::Choice> choice = own.cublas.choose(problem, descriptors);
      done = choice.has_value();
      if (!done) return;
      const Storage scratch = workspace(device, choice->workspace);
      std::byte* const to = output.raw_data() + call.output * size;
      TUTTI_CUBLAS(
          device, name,
          cublasLtMatmul(own.cublas.handle(), &descriptors.operation, scale, rhs.raw_data() + call.first * size,
                         &descriptors.first, lhs.raw_data() + call.second * size, &descriptors.second, &zero, to,
                         &descriptors.output, to, &descriptors.output, &choice->algorithm, scratch.data(),
                         choice->workspace, queue));
    }
  });
  return done;
}

void CudaBackend::matmul(const Array& lhs, const Array& rhs, const Array& output) {
  const MatmulPlan plan(lhs, rhs, output);
  multiply("matmul", plan, problem_of(plan, lhs, rhs, output), lhs, rhs, output, nullptr);
}

void CudaBackend::linear(const Array& input, const Array& weight, const Array& given, LinearActivation activation,
                         const Array& output) {
  const bool moved = given.defined() && is_narrow(given.dtype()) && !is_aligned(given);
  const Array bias = moved ? given.copy() : given;  // so that it is added before the one rounding
  const Fused fused(output.dtype(), bias, activation);
  const MatmulPlan plan(input, weight, output);
  CublasProblem problem = problem_of(plan, input, weight, output);
  problem.epilogue = fused.epilogue;
  if (!multiply("linear", plan, problem, input, weight, output, fused.adds_bias ? bias.raw_data() : nullptr))
    return Backend::linear(input, weight, bias, activation, output);
  finish_linear(fused.adds_bias ? Array() : bias, fused.left, output);
}

}  // namespace tutti
