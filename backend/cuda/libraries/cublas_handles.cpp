// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/libraries/cublas_handles.h>

#include <tutti/backend/cuda/libraries/cublas_check.h>
#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/raise.h>

namespace tutti {
namespace {

constexpr std::string_view kMatmulOperation = "matmul";
constexpr std::size_t kMostMatmulWorkspace = std::size_t{32} << 20U;  // bytes: what NVIDIA advises for Hopper

cudaDataType_t cublas_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDA_R_64F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}

void describe(Device device, cublasLtMatrixLayoutOpaque_t& layout, const CublasProblem& problem,
              const MatmulPlan::Operand& operand) {
  const cudaDataType_t type = cublas_type(problem.dtype);
  const auto batch = static_cast<std::int32_t>(problem.batch);
  TUTTI_CUBLAS(device, kMatmulOperation,
               cublasLtMatrixLayoutInit(&layout, type, static_cast<std::uint64_t>(operand.rows),
                                        static_cast<std::uint64_t>(operand.columns), operand.leading));
  TUTTI_CUBLAS(device, kMatmulOperation,
               cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)));
  TUTTI_CUBLAS(device, kMatmulOperation,
               cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                &operand.batch_stride, sizeof(operand.batch_stride)));
}

}  // namespace

CublasDescriptors::CublasDescriptors(Device device, const CublasProblem& problem, const void* bias) {
  const cublasComputeType_t compute = problem.dtype == DType::f64 ? CUBLAS_COMPUTE_64F
                                      : problem.tf32              ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                  : CUBLAS_COMPUTE_32F;
  const cudaDataType_t scale = problem.dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F;
  const cublasOperation_t of_first = problem.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t of_second = problem.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  TUTTI_CUBLAS(device, kMatmulOperation, cublasLtMatmulDescInit(&operation, compute, scale));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    TUTTI_CUBLAS(device, kMatmulOperation,
                 cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, of_first);
  set(CUBLASLT_MATMUL_DESC_TRANSB, of_second);
  if (problem.epilogue != CUBLASLT_EPILOGUE_DEFAULT) set(CUBLASLT_MATMUL_DESC_EPILOGUE, problem.epilogue);
  if (bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  describe(device, first, problem, problem.first);
  describe(device, second, problem, problem.second);
  describe(device, output, problem, problem.output);
}

CublasHandles::~CublasHandles() {
  if (handle_ == nullptr) return;
  const std::lock_guard lock(cuda_runtime::launch_or_allocate());
  cublasLtDestroy(handle_);
}

cublasLtHandle_t CublasHandles::handle() {
  const std::lock_guard lock(mutex_);
  if (handle_ == nullptr) {
    const std::lock_guard making(cuda_runtime::launch_or_allocate());
    TUTTI_CUBLAS(device_, kMatmulOperation, cublasLtCreate(&handle_));
  }
  return handle_;
}

std::optional<CublasHandles::Choice> CublasHandles::choose(const CublasProblem& problem,
                                                           CublasDescriptors& descriptors) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = choices_.find(problem); found != choices_.end()) return found->second;
  }
  const std::optional<Choice> choice = ask(problem, descriptors);
  const std::lock_guard lock(mutex_);
  if (choices_.size() >= kMostRemembered) choices_.clear();
  choices_.emplace(problem, choice);
  return choice;
}

std::optional<CublasHandles::Choice> CublasHandles::ask(const CublasProblem& problem, CublasDescriptors& descriptors) {
  cublasLtMatmulPreferenceOpaque_t preference;
  TUTTI_CUBLAS(device_, kMatmulOperation, cublasLtMatmulPreferenceInit(&preference));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    TUTTI_CUBLAS(device_, kMatmulOperation,
                 cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostMatmulWorkspace);
  if (is_narrow(problem.dtype)) {  // partial sums are joined in f32, never in 16 bits
    const std::uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, scheme);
  }
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem.alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem.alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, problem.alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, problem.alignment);
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle(), &descriptors.operation, &descriptors.first, &descriptors.second,
                                     &descriptors.output, &descriptors.output, &preference, 1, &result, &found);
  const bool unsupported = status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0);
  if (unsupported && problem.epilogue != CUBLASLT_EPILOGUE_DEFAULT) return std::nullopt;
  if (status != CUBLAS_STATUS_SUCCESS)
    cuda_runtime::raise_cublas_error(status, "cublasLtMatmulAlgoGetHeuristic", device_, kMatmulOperation);
  if (found == 0)
    raise<DeviceError>("[{}] {}: cuBLAS has no algorithm for {} products [{}, k] x [k, {}]", kMatmulOperation,
                       to_string(device_), problem.batch, problem.output.columns, problem.output.rows);
  return Choice{result.algo, result.workspaceSize};
}

std::size_t CublasHandles::Hash::operator()(const CublasProblem& problem) const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a, of words
  const auto mix = [&hash](std::int64_t word) { hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x100000001b3U; };
  for (const MatmulPlan::Operand* operand : {&problem.first, &problem.second, &problem.output}) {
    mix(operand->rows);
    mix(operand->columns);
    mix(operand->leading);
    mix(operand->batch_stride);
    mix(operand->transposed ? 1 : 0);
  }
  mix(static_cast<std::int64_t>(problem.dtype));
  mix(problem.tf32 ? 1 : 0);
  mix(problem.batch);
  mix(problem.alignment);
  mix(problem.epilogue);
  return static_cast<std::size_t>(hash ^ (hash >> 32U));
}

}  // namespace tutti
