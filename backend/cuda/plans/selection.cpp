// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/plans/selection.h>

#include <tutti/backend/raise.h>

namespace tutti {

using cuda_kernels::Selection;
using cuda_kernels::StridedAxes;

Selection selection_of(std::string_view operation, const Shape& selected, const Shape& index,
                       const Strides& index_strides, std::size_t axis) {
  const Strides strides = contiguous_strides(selected);
  Selection selection{
      {}, element_count(index), index[axis], 1, static_cast<std::int64_t>(axis), selected[axis], strides[axis]};
  for (std::size_t i = axis + 1; i < index.size(); ++i) selection.inner *= index[i];
  StridedAxes& axes = selection.axes;
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (index[i] == 1) continue;
    const std::int64_t stride = i == axis ? 0 : strides[i];
    const std::int32_t last = axes.count - 1;
    const bool joins =
        last >= 0 && axes.from[last] == stride * index[i] && axes.to[last] == index_strides[i] * index[i];
    if (!joins && axes.count == StridedAxes::kMost)
      raise<ShapeError>("[{}] index {} and {} differ in too many axes", operation, to_string(index),
                        to_string(selected));
    const std::int32_t place = joins ? last : axes.count++;
    axes.length[place] = (joins ? axes.length[place] : 1) * index[i];
    axes.from[place] = stride;
    axes.to[place] = index_strides[i];
  }
  return selection;
}

Selection selection_of(std::string_view operation, const Shape& selected, const Shape& index, std::size_t axis) {
  return selection_of(operation, selected, index, contiguous_strides(index), axis);
}

}  // namespace tutti
