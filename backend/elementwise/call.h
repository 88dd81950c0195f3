// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace tutti {

/// Names one elementwise kernel: an operation (its place in `elementwise::AllOperations`), which of its formulas, and
/// its parameters. Made by `elementwise::make_call`.
struct ElementwiseCall {
  enum class Part : std::uint8_t { value, gradient, gradient_lhs, gradient_rhs };
  static constexpr std::size_t kParameters = 2;

  std::uint16_t operation = 0;
  Part part = Part::value;
  std::array<double, kParameters> parameters{};
  bool operator==(const ElementwiseCall&) const = default;
};

}  // namespace tutti
