// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>

namespace tutti::detail {

/// The operation whose gradient the calling thread computes; null: none.
extern constinit thread_local const std::string_view* gradient_of;

/// Says so while it lives; refers to the name.
class GradientScope {
 public:
  explicit GradientScope(const std::string_view& operation) noexcept : outer_(std::exchange(gradient_of, &operation)) {}
  ~GradientScope() { gradient_of = outer_; }
  GradientScope(const GradientScope&) = delete;
  GradientScope& operator=(const GradientScope&) = delete;

 private:
  const std::string_view* outer_;
};

}  // namespace tutti::detail
