// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/tests/test_devices.h>

#include <vector>

namespace tutti::testing {

template <class T> Tensor make_parameter(const std::vector<T>& values, Device device = test_device()) {
  return Tensor(Array::from(values, {static_cast<std::int64_t>(values.size())}, device), true);
}

/// Gives a parameter a gradient as a backward would.
template <class T> void set_gradient(const Tensor& parameter, const std::vector<T>& values) {
  GradientSlot& slot = parameter.gradient_slot();
  slot.gradient = Array::from(values, parameter.shape(), parameter.device());
  slot.state = GradientState::accumulated;
}

/// Makes a parameter a member of a synchronisation group.
inline void attach(const Tensor& parameter, const char* name) {
  static const int group = 0;
  parameter.gradient_slot().attachment = std::make_shared<const Attachment>(Attachment{{}, name, &group});
}

}  // namespace tutti::testing
