// SPDX-License-Identifier: Apache-2.0
#pragma once

// How runs of elements are reduced, in packs. Each reduction has
//   Accumulated          what partial results are kept in, and `kIdentity` of it
//   Row                  takes contiguous runs, one after the other
//   columns              takes rows of up to kStrip columns into one accumulator a column
//   combine, finish      join partial results; narrow the last

#include <tutti/backend/cpu/packs/pack_math.h>
#include <tutti/backend/elementwise/arithmetic.h>

#include <limits>

namespace tutti::reduce_kernel {

inline constexpr std::int64_t kStrip = 64;

/// Sums of terms in the element type over short blocks, of blocks in double: the error does not grow with the count.
template <class T, bool squared> struct FloatSum {
  using Accumulated = double;
  static constexpr double kIdentity = 0.0;
  static constexpr std::int64_t kLanes = Pack<T>::kLanes;

  TUTTI_ALWAYS_INLINE static Pack<T> term(const Pack<T>& x) { return squared ? x * x : x; }
  TUTTI_ALWAYS_INLINE static void widen(const Pack<T>& sums, double* to) {
    alignas(kPackBytes) T lanes[kLanes];
    sums.store(lanes);
    for (std::int64_t i = 0; i < kLanes; ++i) to[i] += static_cast<double>(lanes[i]);
  }

  class Row {
   public:
    void add(const T* from, std::int64_t count) {
      constexpr std::int64_t kBlock = 32 * kLanes;
      for (std::int64_t begin = 0; begin < count; begin += kBlock)
        add_block(from + begin, std::min(kBlock, count - begin));
    }
    double total() const {
      double sums[kLanes];
      std::copy(lanes_, lanes_ + kLanes, sums);
      for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
        for (std::int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
      return sums[0];
    }

   private:
    TUTTI_ALWAYS_INLINE void add_block(const T* from, std::int64_t count) {
      Pack<T> sum[4] = {Pack<T>(0), Pack<T>(0), Pack<T>(0), Pack<T>(0)};
      std::int64_t i = 0;
      for (; i + 4 * kLanes <= count; i += 4 * kLanes)
        for (std::int64_t j = 0; j < 4; ++j) sum[j] = sum[j] + term(Pack<T>::load(from + i + j * kLanes));
      for (; i + kLanes <= count; i += kLanes) sum[0] = sum[0] + term(Pack<T>::load(from + i));
      if (i < count) sum[1] = sum[1] + term(Pack<T>::load_partial(from + i, count - i));
      widen((sum[0] + sum[1]) + (sum[2] + sum[3]), lanes_);
    }

    alignas(kPackBytes) double lanes_[kLanes] = {};
  };

  static void columns(const T* from, std::int64_t rows, std::int64_t stride, std::int64_t width, double* to) {
    constexpr std::int64_t kBlock = 16;
    for (std::int64_t begin = 0; begin < rows; begin += kBlock) {
      const std::int64_t count = std::min(kBlock, rows - begin);
      std::int64_t column = 0;
      for (; column + kLanes <= width; column += kLanes) {
        Pack<T> sum(0);
        const T* at = from + begin * stride + column;
        for (std::int64_t row = 0; row < count; ++row) sum = sum + term(Pack<T>::load(at + row * stride));
        widen(sum, to + column);
      }
      for (; column < width; ++column) {
        T sum(0);
        const T* at = from + begin * stride + column;
        for (std::int64_t row = 0; row < count; ++row) {
          const T x = at[row * stride];
          sum += squared ? x * x : x;
        }
        to[column] += static_cast<double>(sum);
      }
    }
  }

  static double combine(double a, double b) { return a + b; }
  static T finish(double total) { return static_cast<T>(total); }
};

/// Integers wrap: i32 when the sum, kept in i64, is narrowed.
template <class T, bool squared> struct IntegerSum {
  using Accumulated = std::int64_t;
  static constexpr std::int64_t kIdentity = 0;

  static std::int64_t term(T x) { return squared ? std::int64_t{x} * x : std::int64_t{x}; }

  class Row {
   public:
    void add(const T* from, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) total_ += term(from[i]);
    }
    std::int64_t total() const { return total_; }

   private:
    std::int64_t total_ = 0;
  };

  static void columns(const T* from, std::int64_t rows, std::int64_t stride, std::int64_t width, std::int64_t* to) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < width; ++column) to[column] += term(from[row * stride + column]);
  }

  static std::int64_t combine(std::int64_t a, std::int64_t b) { return a + b; }
  static T finish(std::int64_t total) { return static_cast<T>(total); }
};

/// Products in double, which 16- and 32-bit ones do not overflow on the way, or of integers, which wrap.
template <class T> struct Product {
  using Accumulated = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
  static constexpr Accumulated kIdentity = 1;

  class Row {
   public:
    void add(const T* from, std::int64_t count) {
      std::int64_t i = 0;
      for (; i + kLanes <= count; i += kLanes)
        for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes_[lane] *= from[i + lane];
      for (; i < count; ++i) lanes_[0] *= from[i];
    }
    Accumulated total() const {
      Accumulated product = lanes_[0];
      for (std::int64_t lane = 1; lane < kLanes; ++lane) product *= lanes_[lane];
      return product;
    }

   private:
    static constexpr std::int64_t kLanes = 8;
    Accumulated lanes_[kLanes] = {1, 1, 1, 1, 1, 1, 1, 1};
  };

  static void columns(const T* from, std::int64_t rows, std::int64_t stride, std::int64_t width, Accumulated* to) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < width; ++column) to[column] *= from[row * stride + column];
  }

  static Accumulated combine(Accumulated a, Accumulated b) { return a * b; }
  static T finish(Accumulated product) { return static_cast<T>(product); }
};

/// The largest or smallest, by `elementwise::Maximum` or `Minimum`: NaN wins.
template <class T, class Choice> struct Extreme {
  using Accumulated = T;
  using Limits = std::numeric_limits<T>;
  static constexpr bool kIsMax = std::is_same_v<Choice, elementwise::Maximum>;
  static constexpr T kIdentity = Limits::has_infinity ? (kIsMax ? -Limits::infinity() : Limits::infinity())
                                                      : (kIsMax ? Limits::lowest() : Limits::max());
  static constexpr std::int64_t kLanes = Pack<T>::kLanes;

  template <class X> TUTTI_ALWAYS_INLINE static X combine(const X& a, const X& b) { return Choice{}.value(a, b); }

  class Row {
   public:
    void add(const T* from, std::int64_t count) {
      std::int64_t i = 0;
      for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
        even_ = combine(Pack<T>::load(from + i), even_);
        odd_ = combine(Pack<T>::load(from + i + kLanes), odd_);
      }
      for (; i < count; i += kLanes)
        even_ = combine(Pack<T>::load_partial(from + i, std::min(kLanes, count - i), kIdentity), even_);
    }
    T total() const {
      return fold_lanes(combine(even_, odd_), [](const Pack<T>& a, const Pack<T>& b) { return combine(a, b); });
    }

   private:
    Pack<T> even_{kIdentity};
    Pack<T> odd_{kIdentity};
  };

  static void columns(const T* from, std::int64_t rows, std::int64_t stride, std::int64_t width, T* to) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < width; column += kLanes) {
        const std::int64_t count = std::min(kLanes, width - column);
        const T* at = from + row * stride + column;
        combine(Pack<T>::load_partial(at, count), Pack<T>::load_partial(to + column, count))
            .store_partial(to + column, count);
      }
  }

  static T finish(T best) { return best; }
};

}  // namespace tutti::reduce_kernel
