// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/cpu/runtime/function_ref.h>
#include <tutti/backend/cpu/runtime/thread_pool.h>

#include <array>
#include <span>

namespace tutti {

/// Neighbouring elements of an output and its inputs. Outputs are contiguous; each input is contiguous or one element
/// that stands for all.
struct ElementRun {
  static constexpr std::size_t kInputs = 3;

  std::int64_t count = 0;
  std::byte* output = nullptr;
  std::array<const std::byte*, kInputs> input{};
  std::array<bool, kInputs> repeated{};

  template <class T> T* to() const { return reinterpret_cast<T*>(output); }
  template <class T> const T* from(std::size_t i) const { return reinterpret_cast<const T*>(input[i]); }
};

/// Cuts arrays of one shape, of any strides, into runs that cover each element once, spread over the threads in blocks
/// of fixed size. Elements in other strides pass through small buffers, so `visit` need not know of strides.
void for_each_run(ThreadPool&, const Array& output, std::span<const Array* const> inputs,
                  FunctionRef<void(const ElementRun&)> visit);

}  // namespace tutti
