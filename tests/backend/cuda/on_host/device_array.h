// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/tests/backend/cuda/on_host/grid.h>
#include <tutti/tests/backend/cuda/on_host/memory_watch.h>

#include <functional>
#include <memory>
#include <vector>

namespace tutti::on_host {

/// What kernels get of a CPU array: its elements, in memory that ends with the last of them.
class DeviceArray {
 public:
  /// A copy of the array's part of its storage, aligned as that is.
  explicit DeviceArray(const Array& values);
  /// To be written: what is there is no number that a test expects.
  static DeviceArray unwritten(std::size_t bytes) { return DeviceArray(bytes); }

  const void* data() const noexcept { return first_; }
  void* data() noexcept { return first_; }
  template <class T> const T* as() const noexcept { return reinterpret_cast<const T*>(first_); }
  template <class T> T* as() noexcept { return reinterpret_cast<T*>(first_); }

  /// The elements, for an output: contiguous.
  Array read(const Shape&, DType) const;

 private:
  explicit DeviceArray(std::size_t bytes);
  void allocate(std::size_t bytes, std::size_t misalignment);

  std::unique_ptr<std::byte[]> memory_;
  std::byte* first_ = nullptr;
  std::unique_ptr<LentMemory> lent_;
};

/// Lends all that these arrays are views of, once nothing is queued on them.
class LentArrays {
 public:
  LentArrays(const std::vector<Array>& inputs, const std::vector<Array>& outputs);

 private:
  std::vector<std::unique_ptr<LentMemory>> lent_;
};

/// Calls `run`, which launches kernels, with threads and blocks in several orders; the results must be the same bits.
Array in_every_order(const std::function<Array()>& run);

bool same_bits(const Array&, const Array&);
/// Elements that differ by more than `tolerance`, relative to 1 + what is expected; NaN is alike NaN.
std::size_t differences(const Array& found, const Array& expected, double tolerance);

}  // namespace tutti::on_host
