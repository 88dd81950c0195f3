// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/device.h>
#include <tutti/distributed/layout/gradient_layout.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

/// One device's gradients in a group's layout: neighbours lie next to each other, so that a bucket is one flat piece of
/// memory that is reduced in place. Holds zeros at first.
class GradientArena {
 public:
  /// Makes a flat array of zeros of that many elements.
  using Memory = std::function<Array(std::int64_t elements, DType)>;

  GradientArena(std::shared_ptr<const GradientLayout>, std::span<const SyncParameter>, const Memory&);
  /// Lies in the device's own memory.
  GradientArena(std::shared_ptr<const GradientLayout>, std::span<const SyncParameter>, Device);

  const std::shared_ptr<const GradientLayout>& layout() const noexcept { return layout_; }
  const Array& gradient(ParameterId id) const { return gradients_[id.value]; }  ///< undefined if sparse
  /// True if that is the parameter's gradient in this memory.
  bool is_place_of(ParameterId, const Array&) const;
  Array bucket(std::span<const GradientLayout::Place>) const;  ///< neighbours, as one flat array
  bool holds(const Storage&) const;                            ///< true if that is its memory

 private:
  std::shared_ptr<const GradientLayout> layout_;
  std::vector<Array> flats_;      // one per dtype, as the layout's
  std::vector<Array> gradients_;  // indexed by ParameterId
};

/// Elements from the start of the first gradient to the end of the last; gaps count.
inline std::int64_t bucket_size(std::span<const GradientLayout::Place> bucket) {
  return bucket.back().offset + bucket.back().size - bucket.front().offset;
}

/// One gradient in the flat array of its bucket.
Array gradient_in(const Array& flat, std::span<const GradientLayout::Place> bucket, const GradientLayout::Place&,
                  const Shape&);

}  // namespace tutti
