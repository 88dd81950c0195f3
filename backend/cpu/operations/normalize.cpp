// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/operations/axis_blocks.h>
#include <tutti/backend/cpu/operations/reduce_kernels.h>
#include <tutti/backend/cpu/operations/row_sums.h>
#include <tutti/backend/cpu/packs/pack_loops.h>
#include <tutti/backend/memory/thread_cache.h>

#include <cmath>

namespace tutti {
namespace {

using namespace row_sums;
using reduce_kernel::FloatSum;

template <class T> struct Columns {
  const T* weight;  // null: none
  const T* bias;
};

template <class T> T* data_or_null(const Array& array) { return array.defined() ? array.data<T>() : nullptr; }

template <class T> void normalize_row(const RowNorm& norm, const T* from, const Columns<T>& columns, T* to,
                                      std::int64_t length, T& mean, T& scale) {
  mean = norm.centred ? static_cast<T>(sum_in_double(from, length) / static_cast<double>(length)) : T(0);
  scale =
      static_cast<T>(1.0 / std::sqrt(squares_around(mean, from, length) / static_cast<double>(length) + norm.epsilon));
  const Pack<T> shift(mean);
  const Pack<T> factor(scale);
  for_each_pack<T>(0, length, [&](std::int64_t i, std::int64_t count) {
    Pack<T> y = (load_up_to(from + i, count) - shift) * factor;
    if (columns.weight != nullptr) y = y * load_up_to(columns.weight + i, count);
    if (columns.bias != nullptr) y = y + load_up_to(columns.bias + i, count);
    store_up_to(y, to + i, count);
  });
}

/// scale (g - mean(g) - n mean(g n)), n = (x - mean) scale, g = dy weight.
template <class T> void gradient_row(const RowNorm& norm, const T* from, const T* weight, T mean, T scale, const T* dy,
                                     T* to, std::int64_t length) {
  const Pack<T> shift(mean);
  const Pack<T> factor(scale);
  const auto upstream = [&](std::int64_t i, std::int64_t count) {
    const Pack<T> g = load_up_to(dy + i, count);
    return weight == nullptr ? g : g * load_up_to(weight + i, count);
  };
  PackSum<T> along;
  PackSum<T> level;
  for_each_pack<T>(0, length, [&](std::int64_t i, std::int64_t count) {
    const Pack<T> g = upstream(i, count);
    level.add(g);
    along.add(g * ((load_up_to(from + i, count) - shift) * factor));
  });
  const auto n = static_cast<double>(length);
  const Pack<T> mean_level(norm.centred ? static_cast<T>(level.total() / n) : T(0));
  const Pack<T> mean_along(static_cast<T>(along.total() / n));
  for_each_pack<T>(0, length, [&](std::int64_t i, std::int64_t count) {
    const Pack<T> normalized = (load_up_to(from + i, count) - shift) * factor;
    store_up_to(factor * (upstream(i, count) - mean_level - normalized * mean_along), to + i, count);
  });
}

/// Adds up rows [begin, end) of dy n and of dy, a few rows at a time: those stay in the cache.
template <class T> class ColumnSums {
 public:
  explicit ColumnSums(std::int64_t length)
      : length_(length),
        padded_((length + kLanes - 1) / kLanes * kLanes),
        along_(static_cast<std::size_t>(padded_)),
        level_(static_cast<std::size_t>(padded_)) {}

  void add(const T* from, const T* mean, const T* scale, const T* dy, std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kRows = 16;
    for (std::int64_t first = begin; first < end; first += kRows) {
      const std::int64_t last = std::min(first + kRows, end);
      for_each_pack<T>(0, length_, [&](std::int64_t i, std::int64_t count) {
        Pack<T> along(0);
        Pack<T> level(0);
        for (std::int64_t row = first; row < last; ++row) {
          const Pack<T> g = load_up_to(dy + row * length_ + i, count);
          level = level + g;
          along =
              along + g * ((load_up_to(from + row * length_ + i, count) - Pack<T>(mean[row])) * Pack<T>(scale[row]));
        }
        FloatSum<T, false>::widen(along, &along_[static_cast<std::size_t>(i)]);
        FloatSum<T, false>::widen(level, &level_[static_cast<std::size_t>(i)]);
      });
    }
  }
  void write(T* along, T* level) const {
    for (std::int64_t i = 0; i < length_; ++i) {
      along[i] = static_cast<T>(along_[static_cast<std::size_t>(i)]);
      if (level != nullptr) level[i] = static_cast<T>(level_[static_cast<std::size_t>(i)]);
    }
  }

 private:
  static constexpr std::int64_t kLanes = Pack<T>::kLanes;
  std::int64_t length_;
  std::int64_t padded_;
  CachedVector<double> along_;
  CachedVector<double> level_;
};

}  // namespace

void CpuBackend::normalize_rows(const RowNorm& norm, const Array& input, const Array& weight, const Array& bias,
                                const Array& output, const Array& mean, const Array& scale) {
  const auto work = [norm, &pool = threads(output.device())](const Array& from, const Array& w, const Array& b,
                                                             const Array& to, const Array& means, const Array& scales) {
    const AxisBlocks rows(from.shape(), 1);
    visit_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      const Columns<T> columns{data_or_null<T>(w), data_or_null<T>(b)};
      pool.parallel_for(rows.outer, rows.grain(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
          normalize_row(norm, from.data<T>() + row * rows.length, columns, to.data<T>() + row * rows.length,
                        rows.length, means.data<T>()[row], scales.data<T>()[row]);
      });
    });
  };
  stream(output.device()).launch("normalize_rows", work, input, weight, bias, output, mean, scale);
}

void CpuBackend::normalize_rows_gradient(const RowNorm& norm, const Array& input, const Array& weight,
                                         const Array& mean, const Array& scale, const Array& gradient,
                                         const Array& input_gradient) {
  const auto work = [norm, &pool = threads(input.device())](const Array& from, const Array& w, const Array& means,
                                                            const Array& scales, const Array& dy, const Array& to) {
    const AxisBlocks rows(from.shape(), 1);
    visit_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      pool.parallel_for(rows.outer, rows.grain(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t first = row * rows.length;
          gradient_row(norm, from.data<T>() + first, data_or_null<T>(w), means.data<T>()[row], scales.data<T>()[row],
                       dy.data<T>() + first, to.data<T>() + first, rows.length);
        }
      });
    });
  };
  stream(input.device()).launch("normalize_rows_gradient", work, input, weight, mean, scale, gradient, input_gradient);
}

void CpuBackend::normalize_rows_sums(const Array& input, const Array& mean, const Array& scale, const Array& gradient,
                                     const Array& weight_sums, const Array& bias_sums) {
  const auto work = [&pool = threads(input.device())](const Array& from, const Array& means, const Array& scales,
                                                      const Array& dy, const Array& along, const Array& level) {
    const std::int64_t rows = from.shape()[0];
    const std::int64_t length = from.shape()[1];
    const std::int64_t parts = along.shape()[0];
    visit_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      pool.parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t part = begin; part < end; ++part) {
          ColumnSums<T> sums(length);
          sums.add(from.data<T>(), means.data<T>(), scales.data<T>(), dy.data<T>(), part * rows / parts,
                   (part + 1) * rows / parts);
          T* const levels = data_or_null<T>(level) == nullptr ? nullptr : level.data<T>() + part * length;
          sums.write(along.data<T>() + part * length, levels);
        }
      });
    });
  };
  stream(input.device()).launch("normalize_rows_sums", work, input, mean, scale, gradient, weight_sums, bias_sums);
}

}  // namespace tutti
