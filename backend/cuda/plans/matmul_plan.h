// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <vector>

namespace tutti {

/// A matrix product as cuBLAS sees it. Its matrices are column-major, so that a row-major product is computed as
/// output^T = rhs^T x lhs^T: `first` is the right operand, `second` the left one. One call computes products along the
/// innermost leading axis, each operand stepping by its `batch_stride`; what lies in front of it is looped over.
struct MatmulPlan {
  static constexpr std::int64_t kMostInBatch = 65535;

  struct Operand {
    std::int64_t rows;     // number as stored, column-major
    std::int64_t columns;  // number as stored, column-major
    std::int64_t leading;  // distance between columns, in elements
    bool transposed;       // true: transposed before it is multiplied
    std::int64_t batch_stride = 0;
    friend bool operator==(const Operand&, const Operand&) = default;
  };
  struct Axis {
    std::int64_t length;
    std::int64_t first;
    std::int64_t second;
    std::int64_t output;
  };
  struct Call {
    std::int64_t batch;      // number of products
    std::int64_t first = 0;  // offsets, in elements
    std::int64_t second = 0;
    std::int64_t output = 0;
  };

  Operand first;
  Operand second;
  Operand output;
  std::int64_t inner;  // the length summed over
  Axis batch{1, 0, 0, 0};
  std::vector<Axis> outer;  // all leading axes but `batch`, outermost first

  /// Operands as `Backend::matmul` takes them.
  MatmulPlan(const Array& lhs, const Array& rhs, const Array& output);

  std::int64_t calls() const;
  Call call(std::int64_t index) const;
};

}  // namespace tutti
