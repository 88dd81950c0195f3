// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace tutti {

/// A member by which others notice that the object it is in has gone. Copies and moved objects are others.
class LifetimeWatch {
 public:
  LifetimeWatch() = default;
  LifetimeWatch(const LifetimeWatch&) noexcept {}
  LifetimeWatch& operator=(const LifetimeWatch&) noexcept { return *this; }
  ~LifetimeWatch() = default;

  std::weak_ptr<const void> watch() {
    if (sign_ == nullptr) sign_ = std::make_shared<char>();
    return sign_;
  }

 private:
  std::shared_ptr<const void> sign_;
};

}  // namespace tutti
