// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/parameter_id.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/shape.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// One parameter as all replicas have it.
struct SyncParameter {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  bool sparse = false;  ///< its gradients are rows with their indices
};

/// The place of each gradient in every device's memory: one flat array per dtype, gradients in the order in which they
/// become final, so that neighbours can be reduced as one. Immutable; all devices of a group use the same one.
class GradientLayout {
 public:
  struct Place {
    ParameterId parameter;
    DType dtype = DType::f32;
    std::int64_t offset = 0;  ///< elements before it in its dtype's array; a multiple of 64 bytes
    std::int64_t size = 0;    ///< elements; 0 of a sparse parameter, whose gradients lie nowhere in particular
    bool sparse = false;
  };
  struct Flat {
    DType dtype = DType::f32;
    std::int64_t size = 0;  ///< elements, gaps for alignment included
  };

  /// `order`: each parameter once, earliest final gradient first; dtypes are kept together, and sparse ones last.
  GradientLayout(std::span<const SyncParameter>, std::span<const ParameterId> order);
  /// The order of a layout's places.
  static void sort(std::vector<ParameterId>& order, std::span<const SyncParameter>);

  std::span<const Place> places() const noexcept { return places_; }
  const Place& place_of(ParameterId id) const { return places_[positions_[id.value]]; }
  std::uint32_t position_of(ParameterId id) const { return positions_[id.value]; }
  std::span<const Flat> flats() const noexcept { return flats_; }  ///< one per dtype
  std::size_t bytes() const noexcept;                              ///< size of one device's gradients, gaps included
  /// True if what lies from one position to another, without gaps, may be one bucket of at most so many bytes.
  bool fits_bucket(std::uint32_t first, std::uint32_t last, std::size_t bucket_bytes) const;

 private:
  std::vector<Place> places_;
  std::vector<std::uint32_t> positions_;  // positions in places_, by ParameterId
  std::vector<Flat> flats_;
};

}  // namespace tutti
