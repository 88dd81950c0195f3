// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/index_faults.h>

#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <memory>
#include <optional>

namespace tutti {

using cuda_kernels::IndexFault;

namespace {

std::string_view name_of(IndexFault::Operation operation) {
  switch (operation) {
    case IndexFault::Operation::gather: return "gather";
    case IndexFault::Operation::scatter_add: return "scatter_add";
    default: return "scatter";
  }
}

}  // namespace

IndexFaults::IndexFaults(Device device) : device_(device) {
  const cuda_runtime::CurrentDevice current(device, "index faults");
  void* memory = nullptr;
  const std::lock_guard allocating(cuda_runtime::launch_or_allocate());
  TUTTI_CUDA(device, "index faults",
             cudaHostAlloc(&memory, kPlaces * sizeof(IndexFault), cudaHostAllocPortable | cudaHostAllocMapped));
  places_ = static_cast<IndexFault*>(memory);
  std::uninitialized_default_construct_n(places_, kPlaces);
}

IndexFaults::~IndexFaults() {
  const std::lock_guard allocating(cuda_runtime::launch_or_allocate());
  (void)cuda_runtime::settled(cudaFreeHost(places_));
}

IndexFault* IndexFaults::report() {
  const IndexMeaning* meaning = IndexScope::current();
  if (meaning == nullptr) return places_;
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find_if(meanings_, [&](const IndexMeaning& other) {
    return other.operation == meaning->operation && other.index == meaning->index && other.range == meaning->range &&
           other.from_back == meaning->from_back;
  });
  const auto place = known - meanings_.begin();
  if (known == meanings_.end()) {
    if (meanings_.size() == kPlaces) return places_;
    meanings_.push_back({meaning->operation, meaning->index, meaning->range, {}, {}, meaning->from_back});
  }
  return places_ + place;
}

// One index may be reported from several places, by an operation and by its gradient: the one that says most is told.
void IndexFaults::check() {
  IndexFault found{};
  std::optional<IndexMeaning> meaning;
  {
    const std::lock_guard lock(mutex_);  // not held while an error is made
    for (std::size_t i = 0; i < meanings_.size(); ++i) {
      if (places_[i].operation == IndexFault::Operation::none) continue;
      if (!meaning) {
        found = places_[i];
        if (i > 0) meaning = meanings_[i];
      }
      places_[i].operation = IndexFault::Operation::none;
    }
  }
  if (found.operation == IndexFault::Operation::none) return;
  if (meaning)
    raise<ShapeError>("[{}] {}: {}", meaning->operation, to_string(device_),
                      misfit(*meaning, found.index, found.length));
  raise<ShapeError>("[{}] {}: index {} is out of range for axis {} of length {}", name_of(found.operation),
                    to_string(device_), found.index, static_cast<std::int64_t>(found.axis), found.length);
}

}  // namespace tutti
