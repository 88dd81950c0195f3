// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/libraries/cufft_plans.h>

#include <tutti/backend/cuda/libraries/cufft_check.h>
#include <tutti/backend/cuda/libraries/cufft_functions.h>
#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/error.h>
#include <tutti/backend/memory/storage.h>

#include <fmt/format.h>

#include <algorithm>

namespace tutti {

LoadedLibrary& cufft_library() {
  static LoadedLibrary& library = *new LoadedLibrary(fmt::format("libcufft.so.{}", CUFFT_VER_MAJOR));
  return library;
}

namespace {

constexpr std::string_view kFourierOperation = "fourier";

using Kind = FourierTransform::Kind;

cudaDataType type_of(DType dtype, bool complex) {
  if (dtype == DType::f64) return complex ? CUDA_C_64F : CUDA_R_64F;
  return complex ? CUDA_C_32F : CUDA_R_32F;
}

/// Of the input that cuFFT reads: the right half of a spectrum follows from the left one.
std::size_t input_bytes(const FourierTransform& transform, DType dtype, std::int64_t rows) {
  const std::int64_t row = transform.kind == Kind::real_to_complex   ? transform.length
                           : transform.kind == Kind::complex_to_real ? 2 * (transform.length / 2 + 1)
                                                                     : 2 * transform.length;
  return static_cast<std::size_t>(rows * row) * size_of(dtype);
}

/// Gives a plan back unless it is kept.
struct Made {
  cufftHandle handle = 0;
  bool kept = false;
  ~Made() {
    if (!kept) (void)cufftDestroy(handle);
  }
};

}  // namespace

CufftPlans::~CufftPlans() {
  if (plans_.empty()) return;
  try {
    const cuda_runtime::CurrentDevice current(stream_.device(), kFourierOperation);
    forget();
  } catch (...) {  // the device is lost: its plans go all the same
    forget();
  }
}

// What is given back waits for all that is queued, which nobody is to do while he holds the lock.
void CufftPlans::forget_least_recent() {
  const auto oldest = std::ranges::min_element(plans_, {}, [](const auto& each) { return each.second.used; });
  (void)cuda_runtime::settled(cudaStreamSynchronize(stream_.handle()));
  const std::lock_guard lock(cuda_runtime::launch_or_allocate());
  (void)cufftDestroy(oldest->second.handle);
  plans_.erase(oldest);
}

void CufftPlans::forget() {
  const std::lock_guard lock(cuda_runtime::launch_or_allocate());
  for (const auto& [key, plan] : plans_) (void)cufftDestroy(plan.handle);
  plans_.clear();
}

const CufftPlans::Plan& CufftPlans::plan(const Key& key, cudaStream_t stream) {
  ++uses_;
  if (const auto found = plans_.find(key); found != plans_.end()) {
    found->second.used = uses_;
    return found->second;
  }
  if (plans_.size() >= kMostRemembered) forget_least_recent();
  const Device device = stream_.device();
  const std::lock_guard lock(cuda_runtime::launch_or_allocate());
  cufftHandle handle = 0;
  TUTTI_CUFFT(device, kFourierOperation, cufftCreate(&handle));
  Made made{handle};
  TUTTI_CUFFT(device, kFourierOperation, cufftSetAutoAllocation(handle, 0));
  long long length = key.length;  // NOLINT(google-runtime-int): cuFFT's type
  std::size_t workspace = 0;
  const cudaDataType from = type_of(key.dtype, key.kind != Kind::real_to_complex);
  const cudaDataType to = type_of(key.dtype, key.kind != Kind::complex_to_real);
  TUTTI_CUFFT(device, kFourierOperation,
              cufftXtMakePlanMany(handle, 1, &length, nullptr, 1, 0, from, nullptr, 1, 0, to, key.rows, &workspace,
                                  type_of(key.dtype, true)));
  TUTTI_CUFFT(device, kFourierOperation, cufftSetStream(handle, stream));
  made.kept = true;
  return plans_.emplace(key, Plan{handle, workspace, uses_}).first->second;
}

void CufftPlans::run(const FourierTransform& transform, DType dtype, std::int64_t rows, void* input, void* output) {
  const Device device = stream_.device();
  stream_.launch(kFourierOperation, [&](cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    const Plan& found = plan({transform.kind, dtype, transform.length, rows}, stream);
    const Storage workspace(device, pool_, found.workspace);
    // cuFFT wants memory aligned to complex numbers, of real ones too; a view begins anywhere.
    const bool aligned = reinterpret_cast<std::uintptr_t>(input) % (2 * size_of(dtype)) == 0;
    const Storage copy(device, pool_, aligned ? 0 : input_bytes(transform, dtype, rows));
    if (!aligned) {
      TUTTI_CUDA(device, kFourierOperation,
                 cudaMemcpyAsync(copy.data(), input, copy.bytes(), cudaMemcpyDeviceToDevice, stream));
      input = copy.data();
    }
    TUTTI_CUFFT(device, kFourierOperation, cufftSetWorkArea(found.handle, workspace.data()));
    TUTTI_CUFFT(device, kFourierOperation,
                cufftXtExec(found.handle, input, output, transform.inverse ? CUFFT_INVERSE : CUFFT_FORWARD));
  });
}

}  // namespace tutti
