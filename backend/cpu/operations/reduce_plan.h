// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/memory/thread_cache.h>

#include <span>

namespace tutti {

/// The axes of an input that a reduction keeps and reduces, joined where neighbours are alike and ordered by stride, so
/// that the last one is what lies together in memory.
struct ReducePlan {
  struct Axis {
    std::int64_t length;
    std::int64_t stride;         // stride of the input
    std::int64_t output_stride;  // 0 where reduced
  };

  CachedVector<Axis> kept;     // all kept axes but `inner`
  CachedVector<Axis> reduced;  // all reduced axes but `inner`
  Axis inner{1, 1, 0};         // the last axis of all
  bool inner_is_kept = false;

  /// `output` has length 1 on the axes that are reduced.
  ReducePlan(const Array& input, const Array& output);

  /// Neighbours along `inner` touch, as kernels need it.
  bool is_dense() const { return inner.stride == 1; }

  static std::int64_t count(std::span<const Axis>);
  struct Offsets {
    std::int64_t input;
    std::int64_t output;
  };
  /// Offsets of the element at row-major `place` among the axes.
  static Offsets offsets(std::span<const Axis>, std::int64_t place);
};

}  // namespace tutti
