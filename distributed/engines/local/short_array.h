// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>

namespace tutti {

/// Elements that never move, the usual few of them inside the object itself: reading them costs no further cache line,
/// which would come from another core where that one has just written it.
template <class T, std::size_t Usual> class ShortArray {
 public:
  ShortArray() = default;
  explicit ShortArray(std::size_t size) { set_size(size); }
  ShortArray(const ShortArray&) = delete;
  ShortArray& operator=(const ShortArray&) = delete;

  /// Sets the size, once, before elements are used.
  void set_size(std::size_t size) {
    size_ = size;
    if (size > Usual) rest_ = std::make_unique<T[]>(size);
  }

  std::size_t size() const noexcept { return size_; }
  T* begin() noexcept { return rest_ ? rest_.get() : usual_.data(); }
  T* end() noexcept { return begin() + size_; }
  const T* begin() const noexcept { return rest_ ? rest_.get() : usual_.data(); }
  const T* end() const noexcept { return begin() + size_; }
  T& operator[](std::size_t i) noexcept { return begin()[i]; }
  const T& operator[](std::size_t i) const noexcept { return begin()[i]; }

 private:
  std::size_t size_ = 0;
  std::unique_ptr<T[]> rest_;  // replaces usual_, if there are more
  std::array<T, Usual> usual_{};
};

}  // namespace tutti
