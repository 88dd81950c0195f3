// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/replica/finite_check.h>

#include <bit>
#include <limits>
#include <type_traits>
#include <vector>

namespace tutti {

namespace {

// By its bits: right under any floating-point options, and a loop that vectorises. All ones in the exponent.
template <class T> std::int64_t count(const T* values, std::int64_t size) {
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
  const Bits exponent = std::bit_cast<Bits>(static_cast<T>(std::numeric_limits<ComputedIn<T>>::infinity()));
  Bits found = 0;
  std::int64_t total = 0;
  constexpr std::int64_t kBlock = 4096;  // a block's count fits in Bits
  for (std::int64_t begin = 0; begin < size; begin += kBlock, found = 0) {
    const std::int64_t end = begin + kBlock < size ? begin + kBlock : size;
    for (std::int64_t i = begin; i < end; ++i) found += (std::bit_cast<Bits>(values[i]) & exponent) == exponent ? 1 : 0;
    total += static_cast<std::int64_t>(found);
  }
  return total;
}

}  // namespace

std::int64_t count_non_finite(const Array& array, const Event& ready) {
  if (!array.defined() || !is_floating(array.dtype())) return 0;
  if (ready.recorded()) ready.synchronize();
  return visit_dtype(array.dtype(), [&]<class T>(std::type_identity<T>) -> std::int64_t {
    if constexpr (is_floating(dtype_of<T>)) {
      if (array.is_contiguous() && array.device().kind == DeviceKind::cpu) return count(array.data<T>(), array.size());
      const std::vector<T> values = array.to_vector<T>();
      return count(values.data(), array.size());
    }
    return 0;
  });
}

std::int64_t count_non_finite(const GradientRef& gradient) {
  std::int64_t total = count_non_finite(gradient.gradient, gradient.ready);
  for (const SparseGradient& part : gradient.rows) total += count_non_finite(part.rows, gradient.ready);
  return total;
}

std::int64_t element_count(const GradientRef& gradient) {
  std::int64_t total = gradient.gradient.size();
  for (const SparseGradient& part : gradient.rows) total += part.rows.size();
  return total;
}

}  // namespace tutti
