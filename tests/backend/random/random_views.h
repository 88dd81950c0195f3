// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace tutti::samples {

/// Shapes, strides and elements of every sort, on the CPU.
class RandomViews {
 public:
  explicit RandomViews(unsigned seed) : random_(seed) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  DType dtype() { return kAllDTypes[static_cast<std::size_t>(between(0, std::ssize(kAllDTypes) - 1))]; }
  Shape shape(std::int64_t most_axes, std::int64_t longest_last) {
    Shape shape;
    const std::int64_t rank = between(0, most_axes);
    for (std::int64_t axis = 0; axis < rank; ++axis) shape.push_back(between(1, axis == rank - 1 ? longest_last : 4));
    return shape;
  }

  /// Permuted, sliced with a step, or contiguous: each element has memory of its own.
  Array output(const Shape& shape, DType dtype) { return view(shape, dtype, false); }
  /// The same, and repeated along some axes.
  Array input(const Shape& shape, DType dtype) { return view(shape, dtype, true); }
  /// The same, and backwards along some axes, as what is copied may be.
  Array turned(const Shape& shape, DType dtype) {
    const Array array = input(shape, dtype);
    Strides strides = array.strides();
    std::int64_t offset = array.offset();
    for (std::size_t axis = 0; axis < array.rank(); ++axis) {
      if (between(0, 1) == 0) continue;
      offset += (shape[axis] - 1) * strides[axis];
      strides[axis] = -strides[axis];
    }
    return as_strided(array, shape, strides, offset);
  }

  /// Small numbers, with the odd ones among them.
  void fill(const Array& contiguous) {
    visit_dtype(contiguous.dtype(), [&]<class T>(std::type_identity<T>) {
      for (std::int64_t i = 0; i < contiguous.size(); ++i) contiguous.data<T>()[i] = element<T>();
    });
  }
  /// Numbers that add up without loss, as far as there are less than a hundred thousand.
  void fill_ordinary(const Array& contiguous) {
    visit_dtype(contiguous.dtype(), [&]<class T>(std::type_identity<T>) {
      for (std::int64_t i = 0; i < contiguous.size(); ++i) {
        const std::int64_t number = between(-1000, 1000);
        if constexpr (std::is_same_v<T, bool>)
          contiguous.data<T>()[i] = number > 0;
        else if constexpr (is_floating(dtype_of<T>))
          contiguous.data<T>()[i] = static_cast<T>(static_cast<double>(number) / 64);
        else
          contiguous.data<T>()[i] = static_cast<T>(number);
      }
    });
  }

 private:
  template <class T> T element() {
    using Limits = std::numeric_limits<T>;
    const std::int64_t kind = between(0, 40);
    if constexpr (std::is_same_v<T, bool>) {
      return kind % 2 == 1;
    } else if constexpr (std::is_integral_v<T>) {
      return kind == 0 ? Limits::min() : kind == 1 ? Limits::max() : static_cast<T>(between(-5, 5));
    } else if constexpr (is_narrow(dtype_of<T>)) {
      return static_cast<T>(element<float>());
    } else {
      const T special[] = {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), T(0), T(-0.0), T(1e20)};
      return kind < 6 ? special[kind] : static_cast<T>(std::normal_distribution<double>(0, 3)(random_));
    }
  }

  Array view(const Shape& shape, DType dtype, bool may_repeat) {
    std::vector<std::int64_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    if (between(0, 2) == 0) std::shuffle(order.begin(), order.end(), random_);
    Shape whole;
    std::vector<std::int64_t> begin;
    std::vector<std::int64_t> step;
    const bool sliced = between(0, 2) == 0;
    for (const std::int64_t axis : order) {
      const bool repeated = may_repeat && between(0, 3) == 0;
      begin.push_back(sliced && !repeated ? between(0, 2) : 0);
      step.push_back(sliced && !repeated ? between(1, 3) : 1);
      whole.push_back(repeated ? 1 : begin.back() + (shape[static_cast<std::size_t>(axis)] - 1) * step.back() + 1);
    }
    Array array = Array::empty(whole, dtype, cpu());
    fill(array);
    std::vector<std::int64_t> back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (whole[i] > 1) array = array.slice(static_cast<std::int64_t>(i), begin[i], whole[i], step[i]);
      back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    }
    return array.permute(back).broadcast_to(shape);
  }

  std::mt19937 random_;
};

}  // namespace tutti::samples
