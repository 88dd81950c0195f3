// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// A short list of dimensions or strides: inline up to rank 6, on the heap beyond. Any rank is allowed.
class Dims {
 public:
  static constexpr std::size_t kInline = 6;

  Dims() = default;
  // Copies of few dimensions leave the list on the heap alone, which would take as long as all the rest.
  Dims(const Dims& other) : size_(other.size_), inline_(other.inline_) {
    if (size_ > kInline) heap_ = other.heap_;
  }
  Dims& operator=(const Dims& other) {
    if (other.size_ > kInline)
      heap_ = other.heap_;
    else
      heap_.clear();
    inline_ = other.inline_;
    size_ = other.size_;
    return *this;
  }
  Dims(Dims&&) noexcept = default;
  Dims& operator=(Dims&&) noexcept = default;
  ~Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Dims(const std::vector<T>& values) {  // NOLINT: a list that is made at run time stands where a written one does
    resize(values.size());
    std::copy(values.begin(), values.end(), begin());
  }
  explicit Dims(std::span<const std::int64_t> values) {
    resize(values.size());
    std::copy(values.begin(), values.end(), begin());
  }
  Dims(std::size_t count, std::int64_t value) {
    resize(count);
    std::fill(begin(), end(), value);
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::int64_t* data() noexcept { return size_ <= kInline ? inline_.data() : heap_.data(); }
  const std::int64_t* data() const noexcept { return size_ <= kInline ? inline_.data() : heap_.data(); }
  std::int64_t* begin() noexcept { return data(); }
  std::int64_t* end() noexcept { return data() + size_; }
  const std::int64_t* begin() const noexcept { return data(); }
  const std::int64_t* end() const noexcept { return data() + size_; }
  std::int64_t& operator[](std::size_t i) noexcept { return data()[i]; }
  std::int64_t operator[](std::size_t i) const noexcept { return data()[i]; }
  std::int64_t back() const noexcept { return data()[size_ - 1]; }

  void push_back(std::int64_t value);
  void insert(std::size_t position, std::int64_t value);
  void erase(std::size_t position);

  friend bool operator==(const Dims& lhs, const Dims& rhs) noexcept {
    if (lhs.size_ != rhs.size_) return false;
    const std::int64_t* const a = lhs.data();
    const std::int64_t* const b = rhs.data();
    for (std::size_t i = 0; i < lhs.size_; ++i)  // a call would take longer than so few
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  void resize(std::size_t count) {  // keeps the first elements
    if (std::max(size_, count) > kInline) move_elements(count);
    size_ = count;
  }
  void move_elements(std::size_t count);

  std::size_t size_ = 0;
  std::array<std::int64_t, kInline> inline_{};
  std::vector<std::int64_t> heap_;
};

using Shape = Dims;    ///< lengths of the axes, in elements; {} is a scalar, an axis may have length 0
using Strides = Dims;  ///< distance between neighbours along each axis, in elements

std::string to_string(const Shape&);  ///< "[64, 784]"
std::ostream& operator<<(std::ostream&, const Shape&);
std::int64_t element_count(const Shape&) noexcept;  ///< product of the lengths; 1 for a scalar
/// The same; throws `ShapeError` naming `operation` for a negative length, and for lengths whose product, zeros left
/// out, overflows: so that every stride, and the product of any of the lengths, fits.
std::int64_t checked_element_count(std::string_view operation, const Shape&);
Strides contiguous_strides(const Shape&);  ///< row-major
bool is_contiguous(const Shape&, const Strides&) noexcept;

/// The axes of matrices before their rows and columns.
Shape batch_of(const Shape& matrices);

/// NumPy's broadcasting of two shapes. Throws `ShapeError` naming `operation` and both shapes.
Shape broadcast_shapes(std::string_view operation, const Shape& lhs, const Shape& rhs);

/// `axis` counted from the front; negative axes count from the back. Throws `ShapeError` naming `operation`.
std::size_t normalize_axis(std::string_view operation, std::int64_t axis, std::size_t rank);
/// The same for an axis that is to be added to `shape`: there is one place more.
std::int64_t normalize_new_axis(std::string_view operation, std::int64_t axis, const Shape& shape);
/// True for the axis of a scalar, 0 or -1: what reduces, orders or normalises along an axis takes it to have one.
inline bool is_axis_of_scalar(std::int64_t axis, const Shape& shape) noexcept {
  return shape.empty() && (axis == 0 || axis == -1);
}

}  // namespace tutti
