// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/layout/gradient_arena.h>

#include <algorithm>

namespace tutti {

GradientArena::GradientArena(std::shared_ptr<const GradientLayout> layout, std::span<const SyncParameter> parameters,
                             const Memory& memory)
    : layout_(std::move(layout)), gradients_(parameters.size()) {
  for (const auto& [dtype, size] : layout_->flats()) flats_.push_back(memory(size, dtype));
  for (const GradientLayout::Place& place : layout_->places()) {
    if (place.sparse) continue;
    const GradientLayout::Place alone[] = {place};
    gradients_[place.parameter.value] = bucket(alone).reshape(parameters[place.parameter.value].shape);
  }
}

GradientArena::GradientArena(std::shared_ptr<const GradientLayout> layout, std::span<const SyncParameter> parameters,
                             Device device)
    : GradientArena(std::move(layout), parameters,
                    [device](std::int64_t elements, DType dtype) { return Array::zeros({elements}, dtype, device); }) {}

Array GradientArena::bucket(std::span<const GradientLayout::Place> places) const {
  const GradientLayout::Place& first = places.front();
  const auto flats = layout_->flats();
  const auto flat = std::ranges::find(flats, first.dtype, &GradientLayout::Flat::dtype) - flats.begin();
  return flats_[static_cast<std::size_t>(flat)].slice(0, first.offset, first.offset + bucket_size(places));
}

bool GradientArena::is_place_of(ParameterId id, const Array& array) const {
  if (id.value >= gradients_.size() || !array.defined() || !gradient(id).defined()) return false;
  const Array& place = gradient(id);
  return array.raw_data() == place.raw_data() && array.dtype() == place.dtype() && array.shape() == place.shape() &&
         array.is_contiguous();
}

bool GradientArena::holds(const Storage& storage) const {
  return std::ranges::any_of(flats_, [&](const Array& flat) { return flat.storage().get() == &storage; });
}

Array gradient_in(const Array& flat, std::span<const GradientLayout::Place> bucket, const GradientLayout::Place& place,
                  const Shape& shape) {
  const std::int64_t begin = place.offset - bucket.front().offset;
  return flat.slice(0, begin, begin + place.size).reshape(shape);
}

}  // namespace tutti
