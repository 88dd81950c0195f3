// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/matrix_faults.h>

#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <memory>

namespace tutti {

using cuda_kernels::MatrixFault;

MatrixFaults::MatrixFaults(Device device) : device_(device) {
  const cuda_runtime::CurrentDevice current(device, "matrix faults");
  void* memory = nullptr;
  const std::lock_guard allocating(cuda_runtime::launch_or_allocate());
  TUTTI_CUDA(device, "matrix faults",
             cudaHostAlloc(&memory, kPlaces * sizeof(MatrixFault), cudaHostAllocPortable | cudaHostAllocMapped));
  places_ = static_cast<MatrixFault*>(memory);
  std::uninitialized_default_construct_n(places_, kPlaces);
}

MatrixFaults::~MatrixFaults() {
  const std::lock_guard allocating(cuda_runtime::launch_or_allocate());
  (void)cuda_runtime::settled(cudaFreeHost(places_));
}

MatrixFault* MatrixFaults::report(std::string_view operation) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(operations_, operation);
  const auto place = static_cast<std::size_t>(known - operations_.begin());
  if (known == operations_.end() && operations_.size() < kPlaces) operations_.push_back(operation);
  return places_ + std::min(place, kPlaces - 1);
}

void MatrixFaults::check() {
  MatrixDefect defect;
  std::int64_t matrix = 0;
  std::string_view operation;
  {
    const std::lock_guard lock(mutex_);  // not held while an error is made
    for (std::size_t i = operations_.size(); i-- > 0;) {
      if (places_[i].kind == MatrixDefect::Kind::none) continue;
      defect = {places_[i].kind, places_[i].pivot()};
      matrix = places_[i].matrix();
      operation = operations_[i];
      places_[i].kind = MatrixDefect::Kind::none;
    }
  }
  if (defect.kind == MatrixDefect::Kind::none) return;
  raise<LinearAlgebraError>("[{}] {}: matrix {} of the batch {}", operation, to_string(device_), matrix,
                            to_string(defect));
}

}  // namespace tutti
