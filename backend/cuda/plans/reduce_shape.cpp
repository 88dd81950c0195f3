// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/plans/reduce_shape.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <vector>

namespace tutti {

using cuda_kernels::divide_up;
using cuda_kernels::LineLayout;
using cuda_kernels::ReduceShape;
using cuda_kernels::StridedAxes;

namespace {

struct Axis {
  std::int64_t length;
  std::int64_t from;
  std::int64_t to;
};

/// By stride, so that the last is what lies together in memory; repeated axes first.
void sort_axes(std::vector<Axis>& axes) {
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    if (a.from == 0 || b.from == 0) return a.from == 0 && b.from != 0;
    return a.from > b.from;
  });
}

StridedAxes joined(const std::vector<Axis>& axes, const Shape& shape) {
  StridedAxes joined{};
  for (const Axis& axis : axes) {
    const std::int32_t last = joined.count - 1;
    const bool joins =
        last >= 0 && joined.from[last] == axis.from * axis.length && joined.to[last] == axis.to * axis.length;
    if (!joins && joined.count == StridedAxes::kMost)
      raise<ShapeError>("[reduce] {} has too many axes that do not lie together: copy it first", to_string(shape));
    const std::int32_t place = joins ? last : joined.count++;
    joined.length[place] = (joins ? joined.length[place] : 1) * axis.length;
    joined.from[place] = axis.from;
    joined.to[place] = axis.to;
  }
  return joined;
}

bool lies_in_quads(const ReduceShape& shape, const Array& input) {
  constexpr std::int64_t kQuad = 4;
  if (shape.reduced.count == 0) return false;
  const std::int32_t last = shape.reduced.count - 1;
  if (shape.reduced.from[last] != 1 || shape.reduced.length[last] % kQuad != 0) return false;
  if (reinterpret_cast<std::uintptr_t>(input.raw_data()) % 16 != 0) return false;
  bool aligned = true;
  for (std::int32_t i = 0; i < last; ++i) aligned = aligned && shape.reduced.from[i] % kQuad == 0;
  for (std::int32_t i = 0; i < shape.kept.count; ++i) aligned = aligned && shape.kept.from[i] % kQuad == 0;
  return aligned;
}

/// Lines are cut when they alone would leave most of a large device idle.
void cut_into_segments(ReduceShape& shape) {
  constexpr std::int64_t kTasks = 1024;  // wanted
  constexpr std::int64_t kPerLane = 16;  // elements, at least
  const std::int64_t groups = shape.layout.groups(shape.outputs);
  const std::int64_t lanes = shape.layout.lanes;
  const std::int64_t wanted = std::max<std::int64_t>(1, kTasks / groups);
  const std::int64_t segments = std::clamp<std::int64_t>(shape.length / (kPerLane * lanes), 1, wanted);
  const std::int64_t step = 4 * lanes;
  shape.segment = divide_up(divide_up(shape.length, segments), step) * step;
  shape.segments = divide_up(shape.length, shape.segment);
}

}  // namespace

ReduceShape reduce_shape(const Array& input, const Array& output) {
  std::vector<Axis> kept;
  std::vector<Axis> reduced;
  for (std::size_t i = 0; i < input.rank(); ++i) {
    if (input.shape()[i] == 1) continue;
    const bool is_kept = output.shape()[i] != 1;
    (is_kept ? kept : reduced).push_back({input.shape()[i], input.strides()[i], is_kept ? output.strides()[i] : 0});
  }
  sort_axes(kept);
  sort_axes(reduced);
  ReduceShape shape{};
  shape.kept = joined(kept, input.shape());
  shape.reduced = joined(reduced, input.shape());
  shape.outputs = shape.kept.size();
  shape.length = shape.reduced.size();
  const bool adjacent = kept.empty() || (!reduced.empty() && reduced.back().from != 0 &&
                                         (kept.back().from == 0 || reduced.back().from < kept.back().from));
  shape.in_quads = adjacent && lies_in_quads(shape, input);
  shape.layout = LineLayout::of(shape.outputs, shape.length, adjacent, LineLayout::kOnePass);
  cut_into_segments(shape);
  return shape;
}

}  // namespace tutti
