// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/index_faults.h>

#include <tutti/backend/cuda/cuda_check.h>
#include <tutti/backend/error.h>

#include <algorithm>
#include <memory>

namespace tutti {

using cuda_kernels::IndexFault;

IndexFaults::IndexFaults(Device device) : device_(device) {
  const cuda_runtime::CurrentDevice current(device, "index faults");
  void* memory = nullptr;
  TUTTI_CUDA(device, "index faults",
             cudaHostAlloc(&memory, kPlaces * sizeof(IndexFault), cudaHostAllocPortable | cudaHostAllocMapped));
  places_ = static_cast<IndexFault*>(memory);
  std::uninitialized_default_construct_n(places_, kPlaces);
}

IndexFaults::~IndexFaults() { (void)cuda_runtime::settled(cudaFreeHost(places_)); }

IndexFault* IndexFaults::report() {
  const IndexMeaning* meaning = IndexScope::current();
  if (meaning == nullptr) return places_;
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find_if(meanings_, [&](const IndexMeaning& other) {
    return other.operation == meaning->operation && other.index == meaning->index && other.range == meaning->range;
  });
  const auto place = known - meanings_.begin();
  if (known == meanings_.end()) {
    if (meanings_.size() == kPlaces) return places_;
    meanings_.push_back({meaning->operation, meaning->index, meaning->range, {}, {}, meaning->from_back});
  }
  return places_ + place;
}

void IndexFaults::check() {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < meanings_.size(); ++i) {
    IndexFault& fault = places_[i];
    const IndexFault::Operation operation = fault.operation;
    if (operation == IndexFault::Operation::none) continue;
    fault.operation = IndexFault::Operation::none;
    const std::int64_t index = fault.index;
    const std::int64_t length = fault.length;
    if (i > 0)
      raise<ShapeError>("[{}] {}: {}", meanings_[i].operation, to_string(device_), misfit(meanings_[i], index, length));
    raise<ShapeError>("[{}] {}: index {} is out of range for axis {} of length {}",
                      operation == IndexFault::Operation::gather ? "gather" : "scatter_add", to_string(device_), index,
                      static_cast<std::int64_t>(fault.axis), length);
  }
}

}  // namespace tutti
