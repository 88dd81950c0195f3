// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace tutti {

/// A member by which others notice that the object it is in has gone. Copies and moved objects are others.
class LifeSign {
 public:
  LifeSign() = default;
  LifeSign(const LifeSign&) noexcept {}
  LifeSign& operator=(const LifeSign&) noexcept { return *this; }
  ~LifeSign() = default;

  std::weak_ptr<const void> watch() {
    if (sign_ == nullptr) sign_ = std::make_shared<char>();
    return sign_;
  }

 private:
  std::shared_ptr<const void> sign_;
};

}  // namespace tutti
