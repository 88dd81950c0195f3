// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/shape.h>

#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/raise.h>

#include <limits>
#include <ostream>

namespace tutti {

void Dims::move_elements(std::size_t count) {
  const std::size_t kept = std::min(size_, count);
  if (count > kInline) {
    heap_.resize(count);
    if (size_ <= kInline) std::copy_n(inline_.begin(), kept, heap_.begin());
  } else {
    std::copy_n(heap_.begin(), kept, inline_.begin());
    heap_.clear();
  }
}

void Dims::push_back(std::int64_t value) {
  resize(size_ + 1);
  end()[-1] = value;
}

void Dims::insert(std::size_t position, std::int64_t value) {
  push_back(value);
  std::rotate(begin() + position, end() - 1, end());
}

void Dims::erase(std::size_t position) {
  std::copy(begin() + position + 1, end(), begin() + position);
  resize(size_ - 1);
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", ")); }
std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

namespace {

/// Of the lengths other than 0.
CheckedSize product(const Shape& shape) noexcept {
  CheckedSize product = 1;
  for (const std::int64_t length : shape)
    if (length != 0) product = product * length;
  return product;
}

bool is_empty(const Shape& shape) noexcept { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

}  // namespace

std::int64_t element_count(const Shape& shape) noexcept {
  if (is_empty(shape)) return 0;
  return product(shape).get_or(std::numeric_limits<std::int64_t>::max());
}

std::int64_t checked_element_count(std::string_view operation, const Shape& shape) {
  for (const std::int64_t length : shape)
    if (length < 0) raise<ShapeError>("[{}] negative length in shape {}", operation, to_string(shape));
  const std::int64_t count = product(shape).get(operation, "shape {}", shape);
  return is_empty(shape) ? 0 : count;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  std::int64_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(1, shape[axis]);
  }
  return strides;
}

bool is_contiguous(const Shape& shape, const Strides& strides) noexcept {
  std::int64_t expected = 1;
  bool dense = true;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 0) return true;
    if (shape[axis] == 1) continue;  // its stride is never used
    dense = dense && strides[axis] == expected;
    expected *= shape[axis];
  }
  return dense;
}

Shape batch_of(const Shape& matrices) { return Shape(std::span(matrices.data(), matrices.size() - 2)); }

Shape broadcast_shapes(std::string_view operation, const Shape& lhs, const Shape& rhs) {
  const bool lhs_longer = lhs.size() >= rhs.size();
  const Shape& shorter = lhs_longer ? rhs : lhs;
  Shape result = lhs_longer ? lhs : rhs;
  const std::size_t shift = result.size() - shorter.size();
  for (std::size_t axis = 0; axis < shorter.size(); ++axis) {
    std::int64_t& length = result[axis + shift];
    if (length == shorter[axis] || shorter[axis] == 1) continue;
    if (length != 1)
      raise<ShapeError>("[{}] shapes {} and {} cannot be broadcast together", operation, to_string(lhs),
                        to_string(rhs));
    length = shorter[axis];
  }
  return result;
}

std::size_t normalize_axis(std::string_view operation, std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  if (axis < -count || axis >= count)
    raise<ShapeError>("[{}] axis {} is out of range for rank {}", operation, axis, rank);
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

std::int64_t normalize_new_axis(std::string_view operation, std::int64_t axis, const Shape& shape) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (axis < -rank - 1 || axis > rank)
    raise<ShapeError>("[{}] axis {} is out of range for a new one of {}: {} to {}", operation, axis, to_string(shape),
                      -rank - 1, rank);
  return axis < 0 ? axis + rank + 1 : axis;
}

}  // namespace tutti
