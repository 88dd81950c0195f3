// SPDX-License-Identifier: Apache-2.0
// Views of an Array: the same storage under another shape, strides and offset.
#include <tutti/backend/array.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace tutti {
namespace {

/// `shape` with its -1, if any, worked out.
Shape complete_shape(const Array& array, const Shape& shape) {
  Shape result = shape;
  auto* const unknown = std::find(result.begin(), result.end(), -1);
  if (unknown != result.end()) {
    if (std::find(unknown + 1, result.end(), -1) != result.end())
      raise<ShapeError>("[reshape] shape {} leaves more than one length open", to_string(shape));
    *unknown = 1;
  }
  if (std::any_of(result.begin(), result.end(), [](std::int64_t length) { return length < 0; }))
    raise<ShapeError>("[reshape] negative length in shape {}", to_string(shape));
  const std::int64_t known = checked_element_count("reshape", result);
  if (unknown != result.end() && known != 0) *unknown = array.size() / known;
  const bool solved = unknown == result.end() || known != 0;
  if (!solved && array.size() == 0)
    raise<ShapeError>("[reshape] shape {} leaves a length open that may be any, as {} has no elements",
                      to_string(shape), to_string(array.shape()));
  if (!solved || element_count(result) != array.size())
    raise<ShapeError>("[reshape] shape {} does not hold the elements of {}", to_string(shape),
                      to_string(array.shape()));
  return result;
}

/// Strides that give `shape` the elements of the old shape in the same order, if there are any. Old axes are merged
/// into runs that are evenly spaced in memory; each new axis must lie within one run.
std::optional<Strides> reshaped_strides(const Shape& old_shape, const Strides& old_strides, const Shape& shape) {
  Strides strides(shape.size(), 1);
  auto axis = static_cast<std::ptrdiff_t>(shape.size()) - 1;
  for (auto old = static_cast<std::ptrdiff_t>(old_shape.size()) - 1; old >= 0; --old) {
    if (old_shape[old] == 1) continue;
    std::int64_t run = old_shape[old];
    std::int64_t stride = old_strides[old];
    for (; old > 0 && (old_shape[old - 1] == 1 || old_strides[old - 1] == stride * run); --old)
      run *= old_shape[old - 1];
    // Fill new axes, from the back, until they hold the run.
    std::int64_t filled = 1;
    while (filled < run) {
      if (axis < 0 || run % (filled * shape[axis]) != 0) return std::nullopt;
      strides[axis] = stride * filled;
      filled *= shape[axis--];
    }
  }
  return strides;  // what is left are axes of length 1
}

}  // namespace

Array Array::view(const Shape& shape, const Strides& strides, std::int64_t offset) const {
  Array result;
  result.storage_ = storage_;
  result.shape_ = shape;
  result.strides_ = strides;
  result.offset_ = offset;
  result.size_ = element_count(shape);
  result.dtype_ = dtype_;
  result.device_ = device_;
  return result;
}

Array lend(const Array& array) {
  Array result = array;
  result.storage_ = std::shared_ptr<Storage>(array.storage_.get(), [owner = array.storage_](Storage*) {});
  return result;
}

Array as_strided(const Array& array, Shape shape, Strides strides, std::int64_t offset) {
  checks::require_defined("as_strided", array);
  if (shape.size() != strides.size())
    raise<ShapeError>("[as_strided] {} lengths but {} strides", shape.size(), strides.size());
  checked_element_count("as_strided", shape);
  return array.view(shape, strides, offset);
}

Array Array::permute(std::span<const std::int64_t> axes) const {
  checks::require_defined("permute", *this);
  const auto refuse = [&] {
    raise<ShapeError>("[permute] axes {} do not name each axis of {} once", to_string(Dims(axes)), to_string(shape_));
  };
  if (axes.size() != rank()) refuse();
  Shape shape(rank(), -1);
  Strides strides(rank(), -1);
  Dims seen(rank(), 0);
  for (std::size_t i = 0; i < rank(); ++i) {
    const std::size_t axis = normalize_axis("permute", axes[i], rank());
    if (seen[axis]++ != 0) refuse();
    shape[i] = shape_[axis];
    strides[i] = strides_[axis];
  }
  return view(shape, strides, offset_);
}

Array Array::transpose(std::int64_t axis0, std::int64_t axis1) const {
  checks::require_defined("transpose", *this);
  const std::size_t first = normalize_axis("transpose", axis0, rank());
  const std::size_t second = normalize_axis("transpose", axis1, rank());
  Array result = *this;
  std::swap(result.shape_[first], result.shape_[second]);
  std::swap(result.strides_[first], result.strides_[second]);
  return result;
}

Array Array::slice(std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step) const {
  checks::require_defined("slice", *this);
  const std::size_t place = normalize_axis("slice", axis, rank());
  const std::int64_t length = shape_[place];
  const std::int64_t first = begin < 0 ? begin + length : begin;
  const std::int64_t last = end < 0 ? end + length : end;
  if (first < 0 || last > length || first > last || step < 1)
    raise<ShapeError>("[slice] {}:{}:{} does not fit axis {} of {}", begin, end, step, axis, to_string(shape_));
  Array result = *this;
  result.shape_[place] = (last - first) / step + ((last - first) % step != 0 ? 1 : 0);
  if (result.shape_[place] > 1) result.strides_[place] *= step;
  result.size_ = element_count(result.shape_);
  if (result.size_ > 0) result.offset_ += first * strides_[place];  // else nothing lies there
  return result;
}

Array Array::broadcast_to(const Shape& shape) const {
  checks::require_defined("broadcast_to", *this);
  const auto refuse = [&] {
    raise<ShapeError>("[broadcast_to] shape {} cannot be broadcast to {}", to_string(shape_), to_string(shape));
  };
  checked_element_count("broadcast_to", shape);
  if (shape.size() < rank()) refuse();
  const std::size_t shift = shape.size() - rank();
  Strides strides(shape.size(), 0);
  for (std::size_t axis = 0; axis < rank(); ++axis) {
    if (shape_[axis] == shape[axis + shift])
      strides[axis + shift] = strides_[axis];
    else if (shape_[axis] != 1)
      refuse();
  }
  return view(shape, strides, offset_);
}

Array Array::squeeze(std::int64_t axis) const {
  checks::require_defined("squeeze", *this);
  const std::size_t place = normalize_axis("squeeze", axis, rank());
  if (shape_[place] != 1) raise<ShapeError>("[squeeze] axis {} of {} does not have length 1", axis, to_string(shape_));
  Array result = *this;
  result.shape_.erase(place);
  result.strides_.erase(place);
  return result;
}

Array Array::expand_dims(std::int64_t axis) const {
  checks::require_defined("expand_dims", *this);
  const std::size_t place = normalize_axis("expand_dims", axis, rank() + 1);
  Array result = *this;
  const std::int64_t stride = place < rank() ? shape_[place] * strides_[place] : 1;
  result.shape_.insert(place, 1);
  result.strides_.insert(place, stride);
  return result;
}

Array Array::reshape(const Shape& requested) const {
  checks::require_defined("reshape", *this);
  if (requested == shape_) return *this;
  const Shape shape = complete_shape(*this, requested);
  if (size_ == 0 || is_contiguous()) return view(shape, contiguous_strides(shape), offset_);
  if (const auto strides = reshaped_strides(shape_, strides_, shape)) return view(shape, *strides, offset_);
  return copy().reshape(shape);
}

}  // namespace tutti
