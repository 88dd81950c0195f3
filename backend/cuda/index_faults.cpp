// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/index_faults.h>

#include <tutti/backend/cuda/cuda_check.h>
#include <tutti/backend/error.h>

#include <new>

namespace tutti {

using cuda_kernels::IndexFault;

IndexFaults::IndexFaults(Device device) : device_(device) {
  const cuda_runtime::CurrentDevice current(device, "index faults");
  void* memory = nullptr;
  TUTTI_CUDA(device, "index faults",
             cudaHostAlloc(&memory, sizeof(IndexFault), cudaHostAllocPortable | cudaHostAllocMapped));
  report_ = new (memory) IndexFault;
}

IndexFaults::~IndexFaults() { (void)cuda_runtime::settled(cudaFreeHost(report_)); }

void IndexFaults::check() {
  const std::lock_guard lock(mutex_);
  const IndexFault::Operation operation = report_->operation;
  if (operation == IndexFault::Operation::none) return;
  report_->operation = IndexFault::Operation::none;
  raise<ShapeError>("[{}] {}: index {} is out of range for axis {} of length {}",
                    operation == IndexFault::Operation::gather ? "gather" : "scatter_add", to_string(device_),
                    static_cast<std::int64_t>(report_->index), static_cast<std::int64_t>(report_->axis),
                    static_cast<std::int64_t>(report_->length));
}

}  // namespace tutti
