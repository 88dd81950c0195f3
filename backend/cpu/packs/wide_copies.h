// SPDX-License-Identifier: Apache-2.0
#pragma once

// Elements as what they are computed in, for kernels that do not read or write 16 bits themselves.

#include <tutti/backend/cpu/packs/wide_lanes.h>
#include <tutti/backend/cpu/runtime/thread_pool.h>
#include <tutti/backend/memory/storage.h>

#include <cstdint>
#include <optional>
#include <type_traits>

namespace tutti {

/// The elements themselves, or a copy of them.
template <class S> class WideOperand {
 public:
  using T = ComputedIn<S>;

  WideOperand(Device device, MemoryPool& pool, ThreadPool& threads, const S* from, std::int64_t count) {
    if constexpr (std::is_same_v<S, T>) {
      data_ = from;
    } else {
      copy_.emplace(device, pool, static_cast<std::size_t>(count) * sizeof(T));
      T* const to = reinterpret_cast<T*>(copy_->data());
      constexpr std::int64_t kGrain = 16384;
      threads.parallel_for(count, kGrain,
                           [&](std::int64_t begin, std::int64_t end) { widen(from + begin, to + begin, end - begin); });
      data_ = to;
    }
  }
  const T* data() const { return data_; }

 private:
  std::optional<Storage> copy_;
  const T* data_;
};

/// Room for results: their place, or one beside it from which they are written.
template <class S> class WideResult {
 public:
  using T = ComputedIn<S>;

  WideResult(Device device, MemoryPool& pool, S* to, std::int64_t count) : to_(to) {
    if constexpr (std::is_same_v<S, T>) {
      data_ = to;
    } else {
      copy_.emplace(device, pool, static_cast<std::size_t>(count) * sizeof(T));
      data_ = reinterpret_cast<T*>(copy_->data());
    }
  }
  T* data() const { return data_; }

  /// Writes what was computed of [begin, end), each element rounded once. Several threads may.
  void write(std::int64_t begin, std::int64_t end) const {
    if constexpr (!std::is_same_v<S, T>) narrow(data_ + begin, to_ + begin, end - begin);
  }

 private:
  std::optional<Storage> copy_;
  S* to_;
  T* data_;
};

}  // namespace tutti
