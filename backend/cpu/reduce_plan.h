// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <vector>

namespace tutti {

/// Which axes of an input are reduced, joined where neighbours are alike and ordered by stride, so that the last one is
/// what lies together in memory.
struct ReducePlan {
  struct Axis {
    std::int64_t length;
    std::int64_t stride;         // of the input
    std::int64_t output_stride;  // 0 where reduced
  };

  std::vector<Axis> kept;     // without `inner`
  std::vector<Axis> reduced;  // without `inner`
  Axis inner{1, 1, 0};        // the last axis of all
  bool inner_is_kept = false;

  /// `output` has length 1 on the axes that are reduced.
  ReducePlan(const Array& input, const Array& output);

  /// Neighbours along `inner` touch, as kernels need it.
  bool is_dense() const { return inner.stride == 1; }

  static std::int64_t count(const std::vector<Axis>&);
  struct Offsets {
    std::int64_t input;
    std::int64_t output;
  };
  /// Of the element at row-major `place` among the axes.
  static Offsets offsets(const std::vector<Axis>&, std::int64_t place);
};

}  // namespace tutti
