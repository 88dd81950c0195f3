// SPDX-License-Identifier: Apache-2.0
#pragma once

// Entries that may stand between the brackets: x[3], x[{all, range(0, 4), newaxis}], x[{ellipsis, -1}], x[rows].

#include <tutti/autodiff/tensor.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <variant>

namespace tutti {

inline constexpr std::nullopt_t none = std::nullopt;  ///< an end of a range that is left open

struct All {};
struct NewAxis {};
struct Ellipsis {};
inline constexpr All all{};            ///< a whole axis
inline constexpr NewAxis newaxis{};    ///< a new axis of length 1
inline constexpr Ellipsis ellipsis{};  ///< whole axes, as many as the other entries leave; at most once

/// Positions begin, begin + step, ... before end, as in Python's begin:end:step: negative ones count from the back,
/// and what lies outside is cut off.
struct Range {
  std::optional<std::int64_t> begin;
  std::optional<std::int64_t> end;
  std::int64_t step = 1;  ///< > 0
};
constexpr Range range(std::optional<std::int64_t> begin, std::optional<std::int64_t> end, std::int64_t step = 1) {
  return {begin, end, step};
}

/// One entry. A position drops its axis; a tensor of integers of any type takes those positions, and its axes stand in
/// the axis' place. Several tensors are broadcast and select element by element, x[{rows, columns}]; their axes stand
/// where the first's was, or in front of all if other axes lie between them. Negative positions count from the back.
class Index {
 public:
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Index(T position) : entry_(static_cast<std::int64_t>(position)) {}  // NOLINT: conversions are the point
  Index(All) : entry_(Range{}) {}                                     // NOLINT
  Index(Range range) : entry_(range) {}                               // NOLINT
  Index(NewAxis) : entry_(NewAxis{}) {}                               // NOLINT
  Index(Ellipsis) : entry_(Ellipsis{}) {}                             // NOLINT
  Index(Tensor positions) : entry_(std::move(positions)) {}           // NOLINT

  using Entry = std::variant<std::int64_t, Range, NewAxis, Ellipsis, Tensor>;
  const Entry& entry() const noexcept { return entry_; }

 private:
  Entry entry_;
};

/// A copy of `x` with `value`, broadcast and in x's dtype, in place of the elements that the entries select; of several
/// at one place the last stays. The gradient is dy without those for x, and those of dy for the value. DTypeError for a
/// literal that x's dtype does not have.
Tensor slice_assign(const Tensor& x, std::span<const Index>, const Tensor& value);
inline Tensor slice_assign(const Tensor& x, std::initializer_list<Index> entries, const Tensor& value) {
  return slice_assign(x, std::span(entries.begin(), entries.size()), value);
}
template <Literal T> Tensor slice_assign(const Tensor& x, std::span<const Index> entries, T value) {
  return slice_assign(x, entries, Tensor(Scalar(value)));
}
template <Literal T> Tensor slice_assign(const Tensor& x, std::initializer_list<Index> entries, T value) {
  return slice_assign(x, entries, Tensor(Scalar(value)));
}

}  // namespace tutti
