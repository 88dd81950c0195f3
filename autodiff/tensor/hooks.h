// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace tutti {

/// Functions that were registered somewhere, in that order. One thread at a time.
template <class Hook> class HookList {
 public:
  std::uint64_t add(Hook hook) {
    hooks_.emplace_back(++last_, std::make_shared<Hook>(std::move(hook)));
    return last_;
  }
  void remove(std::uint64_t number) {
    std::erase_if(hooks_, [&](const auto& entry) { return entry.first == number; });
  }
  bool empty() const noexcept { return hooks_.empty(); }

  /// Calls `each` with those that are registered now, as std::shared_ptr<Hook>: a hook may register and remove others,
  /// and keeps its state from call to call.
  template <class Each> void for_each(Each each) const {
    const auto now = hooks_;
    for (const auto& [number, hook] : now) each(hook);
  }

 private:
  std::vector<std::pair<std::uint64_t, std::shared_ptr<Hook>>> hooks_;
  std::uint64_t last_ = 0;
};

/// Removes one hook. A hook also goes with what it was registered at; a handle that goes leaves it there.
class HookHandle {
 public:
  HookHandle() = default;
  template <class Hook> HookHandle(const std::shared_ptr<HookList<Hook>>& list, Hook hook) {
    remove_ = [held = std::weak_ptr(list), number = list->add(std::move(hook))] {
      if (const auto alive = held.lock()) alive->remove(number);
    };
  }
  void remove() {
    if (remove_) std::exchange(remove_, nullptr)();
  }

 private:
  std::function<void()> remove_;
};

}  // namespace tutti
