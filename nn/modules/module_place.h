// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

namespace tutti {

class Module;

/// Tells those who asked where a module is. It follows the module when that is moved, stays with it when another one is
/// assigned to it, and is gone from a copy. Belongs to the module; one thread at a time.
class ModulePlace {
 public:
  ModulePlace() = default;
  ModulePlace(const ModulePlace&) noexcept {}
  ModulePlace& operator=(const ModulePlace&) noexcept { return *this; }
  ModulePlace(ModulePlace&&) = delete;  // `move_to` says where to
  ModulePlace& operator=(ModulePlace&&) = delete;
  ~ModulePlace() {
    if (held_) *held_ = nullptr;
  }

  /// Holder of the owner's address as long as the owner lives, then of null.
  std::shared_ptr<Module* const> of(Module& owner) {
    if (!held_) held_ = std::make_shared<Module*>(&owner);
    return held_;
  }

  /// The module was moved to `owner`, whose place is `target`. One that somebody has asked for already stays.
  void move_to(ModulePlace& target, Module& owner) noexcept {
    if (!held_ || target.held_) return;
    target.held_ = std::move(held_);
    *target.held_ = &owner;
  }

 private:
  std::shared_ptr<Module*> held_;  // null until somebody asks
};

}  // namespace tutti
