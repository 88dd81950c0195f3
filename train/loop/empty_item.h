// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <concepts>
#include <mutex>
#include <optional>

namespace tutti {

/// Makes items without examples of its own type: a type derived from one that does, as from Batch, says so itself.
template <class Item>
concept HasEmptyItem = requires(const Item& item, Device device) {
  { item.without_examples(device) } -> std::same_as<Item>;
};

/// An item without examples for the devices of a group that have none in a step: made of the first item that any of
/// them had, by `Item without_examples(Device) const`. An item type without that has none. Any thread.
template <class Item> class EmptyItem {
 public:
  void learn([[maybe_unused]] const Item& item, [[maybe_unused]] Device device) {
    if constexpr (HasEmptyItem<Item>) {
      const std::lock_guard lock(mutex_);
      if (!pattern_) pattern_ = item.without_examples(device);
    }
  }
  std::optional<Item> on([[maybe_unused]] Device device) const {
    if constexpr (HasEmptyItem<Item>) {
      const std::lock_guard lock(mutex_);
      if (pattern_) return pattern_->without_examples(device);
    }
    return std::nullopt;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Item> pattern_;
};

}  // namespace tutti
