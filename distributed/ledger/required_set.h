// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/parameter_id.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace tutti {

/// The parameters that one device requires in a step. Immutable and shared: registering the same one again costs O(1).
class RequiredSet {
 public:
  RequiredSet() = default;
  /// Takes any order; duplicates are dropped.
  explicit RequiredSet(std::vector<ParameterId> parameters) : parameters_(std::move(parameters)) {
    std::ranges::sort(parameters_);
    const auto repeated = std::ranges::unique(parameters_);
    parameters_.erase(repeated.begin(), repeated.end());
  }

  std::span<const ParameterId> parameters() const noexcept { return parameters_; }
  bool contains(ParameterId id) const { return std::ranges::binary_search(parameters_, id); }

 private:
  std::vector<ParameterId> parameters_;  // ascending
};

}  // namespace tutti
