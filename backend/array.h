// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/memory/storage.h>
#include <tutti/backend/scalar.h>
#include <tutti/backend/shape.h>

#include <memory>
#include <span>
#include <vector>

namespace tutti {

/// An n-dimensional, strided view of a reference-counted storage. No gradients. A cheap handle: copies and views share
/// the storage. Work on it is queued on its device's compute stream; only `to_vector`, `item` and the other functions
/// that say so wait for it. Distinct arrays may be used from distinct threads.
class Array {
 public:
  Array() = default;  ///< undefined: holds nothing

  // --- making arrays; all throw OutOfMemoryError, and ShapeError for a negative length
  static Array empty(const Shape&, DType, Device);         ///< contents undefined
  static Array full(const Shape&, Scalar, DType, Device);  ///< DTypeError for a number that the type does not have
  static Array zeros(const Shape& shape, DType dtype, Device device) { return full(shape, 0, dtype, device); }
  /// first, first + step, ...; DTypeError if one is out of range.
  static Array arange(std::int64_t count, DType, Device, std::int64_t first = 0, std::int64_t step = 1);
  /// Copies `values` (row-major). Throws ShapeError unless there are as many as the shape holds.
  template <class T> static Array from(std::span<const T> values, const Shape& shape, Device device = cpu(0)) {
    return from_bytes(values.data(), values.size(), dtype_of<T>, shape, device);
  }
  template <class T> static Array from(const std::vector<T>& values, const Shape& shape, Device device = cpu(0)) {
    return from(std::span<const T>(values), shape, device);
  }
  static Array from(const std::vector<bool>& values, const Shape& shape, Device device = cpu(0));
  /// An array over memory of the device that belongs to `owner`, without a copy; the owner is released when no array
  /// and no queued work uses it. Throws Error unless `data` is aligned to the elements, ShapeError for negative lengths
  /// or strides.
  static Array over(void* data, std::shared_ptr<const void> owner, DType, const Shape&, const Strides&, Device);

  // --- what it is
  bool defined() const noexcept { return storage_ != nullptr; }
  const Shape& shape() const noexcept { return shape_; }
  const Strides& strides() const noexcept { return strides_; }
  std::size_t rank() const noexcept { return shape_.size(); }
  std::int64_t size() const noexcept { return size_; }  ///< number of elements
  std::int64_t length(std::int64_t axis) const;         ///< length of one axis; negative axes count from the back
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(size_) * size_of(dtype_); }
  DType dtype() const noexcept { return dtype_; }
  Device device() const noexcept { return device_; }
  /// Distance of the first element from the storage's start, in elements.
  std::int64_t offset() const noexcept { return offset_; }
  bool is_contiguous() const noexcept;
  bool is_one_element() const noexcept;  ///< one element in memory stands for all, however many there are
  const std::shared_ptr<Storage>& storage() const noexcept { return storage_; }

  /// Address of the first element in device memory. Not ordered with queued work: kernels use it when they run.
  template <class T> T* data() const {
    if (storage_ == nullptr || dtype_ != dtype_of<T>) raise_dtype("data", dtype_of<T>);
    return reinterpret_cast<T*>(storage_->data()) + offset_;
  }
  std::byte* raw_data() const noexcept {
    return storage_->data() + offset_ * static_cast<std::int64_t>(size_of(dtype_));
  }

  // --- views, sharing the storage; all throw ShapeError, and Error if undefined
  Array permute(std::span<const std::int64_t> axes) const;
  Array permute(std::initializer_list<std::int64_t> axes) const {
    return permute(std::span(axes.begin(), axes.size()));
  }
  Array transpose(std::int64_t axis0 = -2, std::int64_t axis1 = -1) const;
  /// Elements begin, begin + step, ... before end; negative positions count from the back, step > 0.
  Array slice(std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step = 1) const;
  Array broadcast_to(const Shape&) const;      ///< repeated axes get stride 0
  Array squeeze(std::int64_t axis) const;      ///< drops an axis of length 1
  Array expand_dims(std::int64_t axis) const;  ///< adds an axis of length 1 before `axis`
  /// A view when strides allow it, else a copy. One length may be -1.
  Array reshape(const Shape&) const;

  // --- copies
  Array copy() const;        ///< contiguous, same device
  Array contiguous() const;  ///< itself if contiguous already
  Array cast(DType) const;   ///< itself if already of that type. To bool: x != 0; float to integer truncates
  Array to(Device) const;    ///< itself if already there; else waits for this device's work and copies

  // --- writing in place, ordered on the compute stream; counted, so that backward notices (Storage::version)
  void fill(Scalar);             ///< DTypeError for a number that the type does not have
  void copy_from(const Array&);  ///< same shape and dtype, any device; else ShapeError, DTypeError
  /// Counts a write by other means than this class: the caller's own kernels, `data`, DLPack. `operation`: a literal.
  void count_write(const char* operation) const noexcept {
    if (storage_) storage_->count_write(operation);
  }

  // --- reading on the host; wait for the device's compute stream and rethrow its errors
  template <class T> std::vector<T> to_vector() const;  ///< row-major; throws DTypeError unless T is the array's type
  template <class T>
  T item() const;  ///< the only element, converted to T; throws ShapeError if there is not exactly one

 private:
  friend Array as_strided(const Array&, Shape, Strides, std::int64_t offset);
  friend Array lend(const Array&);
  Array view(const Shape&, const Strides&, std::int64_t offset) const;
  static Array from_bytes(const void* values, std::size_t count, DType, const Shape&, Device);
  [[noreturn]] void raise_dtype(const char* operation, DType read_as) const;

  std::shared_ptr<Storage> storage_;
  Shape shape_;
  Strides strides_;
  std::int64_t offset_ = 0;
  std::int64_t size_ = 0;
  DType dtype_ = DType::f32;
  Device device_;
};

/// The same array with a reference count of its own, that keeps the storage alive: tells its holders from others.
Array lend(const Array&);

/// Any view of the same storage; the caller answers for its bounds.
Array as_strided(const Array&, Shape, Strides, std::int64_t offset);

}  // namespace tutti
