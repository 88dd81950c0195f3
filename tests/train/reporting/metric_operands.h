// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/tests/test_devices.h>

#include <vector>

namespace tutti::testing {

/// A tensor [n] on the device that is tested.
template <class T> Tensor row(const std::vector<T>& values) {
  return Tensor(Array::from(values, {static_cast<std::int64_t>(values.size())}, test_device()));
}

inline Tensor numbers(const std::vector<std::int64_t>& values) { return row(values); }

/// A tensor [n, columns].
inline Tensor table(const std::vector<float>& values, std::int64_t columns) {
  return Tensor(Array::from(values, {static_cast<std::int64_t>(values.size()) / columns, columns}, test_device()),
                true);
}

}  // namespace tutti::testing
