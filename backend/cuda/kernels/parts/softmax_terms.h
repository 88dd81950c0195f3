// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/elementwise/arithmetic.h>

#include <limits>

namespace tutti::cuda_kernels {

/// The largest of some x, and the sum of exp(x - largest), in one pass: what has been summed is scaled when a larger x
/// comes (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). NaN and +inf make the sum NaN.
template <class T> struct ExponentialSum {
  T largest = -std::numeric_limits<T>::infinity();
  T sum = T(0);

  TUTTI_HOST_DEVICE void add(T x) {
    using elementwise::exp;
    if (x > largest) {
      sum = sum * exp(largest - x) + (T(1) + (x - x));
      largest = x;
    } else if (x != x) {
      sum = largest = x;
    } else if (x > -std::numeric_limits<T>::infinity()) {
      sum += exp(x - largest);
    }
  }

  TUTTI_HOST_DEVICE static ExponentialSum combine(const ExponentialSum& a, const ExponentialSum& b) {
    const T largest = elementwise::Maximum{}.value(a.largest, b.largest);
    return {largest, a.scaled(largest) + b.scaled(largest)};
  }

 private:
  TUTTI_HOST_DEVICE T scaled(T to) const {
    using elementwise::exp;
    return largest == to ? sum : sum * exp(largest - to);
  }
};

}  // namespace tutti::cuda_kernels
