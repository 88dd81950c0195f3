// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {

/// Neighbouring elements of an output and its inputs, which a CPU loop treats at once. Outputs are contiguous; each
/// input is contiguous or one element that stands for all.
struct ElementRun {
  static constexpr std::size_t kInputs = 3;

  std::int64_t count = 0;
  std::byte* output = nullptr;
  std::array<const std::byte*, kInputs> input{};
  std::array<bool, kInputs> repeated{};

  template <class T> T* to() const { return reinterpret_cast<T*>(output); }
  template <class T> const T* from(std::size_t i) const { return reinterpret_cast<const T*>(input[i]); }
  template <class T> const T& at(std::size_t i, std::int64_t element) const {
    return from<T>(i)[repeated[i] ? 0 : element];
  }
};

}  // namespace tutti
