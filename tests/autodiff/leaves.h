// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/gradcheck.h>
#include <tutti/autodiff/tensor.h>
#include <tutti/backend/random.h>
#include <tutti/tests/test_devices.h>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace tutti {

using Values = std::vector<double>;

inline Tensor constant(const Values& values, const Shape& shape, Device device = test_device()) {
  return Tensor(Array::from(values, shape, device));
}

inline Tensor leaf(const Values& values, const Shape& shape, Device device = test_device()) {
  return Tensor(Array::from(values, shape, device), true);
}

inline Tensor leaf(const Values& values) { return leaf(values, {static_cast<std::int64_t>(values.size())}); }

inline Tensor index(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor(Array::from(values, shape, test_device()));
}

/// A leaf of numbers without kinks nearby: of both signs, or one, 0.1 apart or more and at least 0.3 from 0, in an
/// order that depends on the seed. Two leaves of seeds a and b differ by more than 0.01 everywhere if a != b mod 5.
inline Tensor spread(const Shape& shape, std::uint64_t seed, bool positive = false) {
  std::int64_t count = 1;
  for (const std::int64_t length : shape) count *= length;
  Values values;
  for (std::int64_t i = 0; i < count; ++i) {
    const double size = 0.3 + 0.1 * static_cast<double>(i) + 0.017 * static_cast<double>(seed % 5);
    values.push_back(positive || i % 2 == 0 ? size : -size);
  }
  Generator random(seed);
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
  return leaf(values, shape);
}

/// Such a leaf of small numbers, whose sums of many products have second derivatives that differences find.
inline Tensor small(const Shape& shape, std::uint64_t seed) {
  Values values = spread(shape, seed).to_vector<double>();
  for (double& value : values) value = 0.3 * value / static_cast<double>(1 + values.size() / 20);
  return leaf(values, shape);
}

/// 0, 1, 2, ...: an element's value is its place.
inline Tensor counted(const Shape& shape, DType dtype = DType::f64) {
  return Tensor(Array::arange(element_count(shape), dtype, test_device()).reshape(shape));
}

/// First and second derivatives.
inline void check_gradients(const CheckedFunction& f, const std::vector<Tensor>& inputs) {
  gradcheck(f, inputs);
  gradgradcheck(f, inputs);
}

}  // namespace tutti
