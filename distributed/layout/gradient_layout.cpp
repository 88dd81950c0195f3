// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/layout/gradient_layout.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

constexpr std::size_t kGradientAlignment = 64;  // bytes: a cache line, so that no two gradients share one

std::int64_t aligned(std::int64_t elements, DType dtype) {
  const auto step = static_cast<std::int64_t>(kGradientAlignment / size_of(dtype));
  return (elements + step - 1) / step * step;
}

}  // namespace

GradientLayout::GradientLayout(std::span<const SyncParameter> parameters, std::span<const ParameterId> order)
    : positions_(parameters.size()) {
  std::vector<ParameterId> sorted(order.begin(), order.end());
  sort(sorted, parameters);
  for (const ParameterId id : sorted) {
    const SyncParameter& parameter = parameters[id.value];
    if (parameter.sparse) {
      positions_[id.value] = static_cast<std::uint32_t>(places_.size());
      places_.push_back({id, parameter.dtype, 0, 0, true});
      continue;
    }
    if (flats_.empty() || flats_.back().dtype != parameter.dtype) flats_.push_back({parameter.dtype, 0});
    const std::int64_t size = element_count(parameter.shape);
    positions_[id.value] = static_cast<std::uint32_t>(places_.size());
    places_.push_back({id, parameter.dtype, flats_.back().size, size});
    flats_.back().size += aligned(size, parameter.dtype);
  }
}

void GradientLayout::sort(std::vector<ParameterId>& order, std::span<const SyncParameter> parameters) {
  std::ranges::stable_sort(
      order, {}, [&](ParameterId id) { return std::pair(parameters[id.value].sparse, parameters[id.value].dtype); });
}

std::size_t GradientLayout::bytes() const noexcept {
  std::size_t total = 0;
  for (const Flat& flat : flats_) total += static_cast<std::size_t>(flat.size) * size_of(flat.dtype);
  return total;
}

bool GradientLayout::fits_bucket(std::uint32_t first, std::uint32_t last, std::size_t bucket_bytes) const {
  const Place& begin = places_[first];
  const Place& end = places_[last];
  if (begin.sparse || end.sparse || begin.dtype != end.dtype) return false;  // rows are not neighbours in memory
  return static_cast<std::size_t>(end.offset + end.size - begin.offset) * size_of(end.dtype) <= bucket_bytes;
}

}  // namespace tutti
