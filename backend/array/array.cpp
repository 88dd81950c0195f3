// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/array.h>

#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/memory/thread_cache.h>
#include <tutti/backend/numbers/arithmetic_sequence.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <limits>

namespace tutti {

Array Array::empty(const Shape& shape, DType dtype, Device device) {
  checks::require_enumerator("empty", "DType", dtype, DType::u8);
  MemoryPool& pool = backend_for(device).pool(device);
  Array array;
  array.size_ = checked_element_count("empty", shape);
  if (array.size_ > std::numeric_limits<std::int64_t>::max() / 8)
    raise<OutOfMemoryError>("[memory] {}: no machine holds {} {}, which {} needs", to_string(device), to_string(dtype),
                            to_string(shape), detail::operation_called("empty"));
  array.shape_ = shape;
  array.strides_ = contiguous_strides(shape);
  array.dtype_ = dtype;
  array.device_ = device;
  array.storage_ = make_cached<Storage>(device, pool, array.bytes());
  return array;
}

Array Array::full(const Shape& shape, Scalar value, DType dtype, Device device) {
  require_fit("full", value, dtype);
  Array array = empty(shape, dtype, device);
  if (array.size_ > 0) backend_for(device).fill(array, value);
  return array;
}

namespace {

/// Of `count` numbers from `first` on. What they run over may be longer than i64 holds.
bool last_is_i64(std::int64_t count, std::int64_t first, std::int64_t step) {
  using Whole = std::uint64_t;
  using Limits = std::numeric_limits<std::int64_t>;
  const Whole length = step < 0 ? Whole{0} - static_cast<Whole>(step) : static_cast<Whole>(step);
  const Whole room = step < 0 ? static_cast<Whole>(first) - static_cast<Whole>(Limits::min())
                              : static_cast<Whole>(Limits::max()) - static_cast<Whole>(first);
  Whole distance = 0;
  return !__builtin_mul_overflow(static_cast<Whole>(count - 1), length, &distance) && distance <= room;
}

}  // namespace

Array Array::arange(std::int64_t count, DType dtype, Device device, std::int64_t first, std::int64_t step) {
  if (dtype == DType::boolean) raise<DTypeError>("[arange] takes numbers, not {}", to_string(dtype));
  if (count < 0) raise<ShapeError>("[arange] negative count {}", count);
  if (count > 0 && !last_is_i64(count, first, step))
    raise<DTypeError>("[arange] {} numbers from {} by {} leave the range of i64", count, first, step);
  for (const std::int64_t end : {std::int64_t{0}, count - 1})
    if (count > 0) require_fit("arange", numbered<std::int64_t>(first, step, end), dtype);
  const Array array = empty({count}, dtype, device);
  if (count > 0) backend_for(device).arange(array, first, step);
  return array;
}

Array Array::from_bytes(const void* values, std::size_t count, DType dtype, const Shape& shape, Device device) {
  if (checked_element_count("from", shape) != static_cast<std::int64_t>(count))
    raise<ShapeError>("[from] {} values do not fill shape {}", count, to_string(shape));
  Array array = empty(shape, dtype, device);
  if (count > 0) backend_for(device).copy_from_host(values, array);
  return array;
}

Array Array::from(const std::vector<bool>& values, const Shape& shape, Device device) {
  const std::unique_ptr<bool[]> unpacked(new bool[values.size()]);
  std::copy(values.begin(), values.end(), unpacked.get());
  return from_bytes(unpacked.get(), values.size(), DType::boolean, shape, device);
}

Array Array::over(void* data, std::shared_ptr<const void> owner, DType dtype, const Shape& shape,
                  const Strides& strides, Device device) {
  checks::require_enumerator("over", "DType", dtype, DType::u8);
  backend_for(device).check(device);
  const std::int64_t count = checked_element_count("over", shape);
  if (strides.size() != shape.size() || std::any_of(strides.begin(), strides.end(), [](auto s) { return s < 0; }))
    raise<ShapeError>("[over] strides {} do not fit shape {}: one for each axis, none negative", to_string(strides),
                      to_string(shape));
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) != 0)
    raise("[over] memory at {} is not aligned to elements of {}", data, to_string(dtype));
  std::int64_t reach = count > 0 ? 1 : 0;  // one more than the last element's place
  for (std::size_t axis = 0; count > 0 && axis < shape.size(); ++axis) {
    std::int64_t extent = 0;
    if (__builtin_mul_overflow(shape[axis] - 1, strides[axis], &extent) ||
        __builtin_add_overflow(reach, extent, &reach) || reach > std::numeric_limits<std::int64_t>::max() / 8)
      raise<ShapeError>("[over] strides {} of shape {} leave every memory", to_string(strides), to_string(shape));
  }
  Array array;
  array.shape_ = shape;
  array.strides_ = strides;
  array.size_ = count;
  array.dtype_ = dtype;
  array.device_ = device;
  array.storage_ =
      make_cached<Storage>(device, data, static_cast<std::size_t>(reach) * size_of(dtype), std::move(owner));
  return array;
}

std::int64_t Array::length(std::int64_t axis) const { return shape_[normalize_axis("length", axis, rank())]; }

bool Array::is_contiguous() const noexcept { return tutti::is_contiguous(shape_, strides_); }

bool Array::is_one_element() const noexcept {
  for (std::size_t axis = 0; axis < shape_.size(); ++axis)
    if (shape_[axis] != 1 && strides_[axis] != 0) return false;
  return defined();
}

void Array::raise_dtype(const char* operation, DType read_as) const {
  if (!defined()) checks::raise_undefined(operation);
  raise<DTypeError>("[{}] read as {}, but it is {}", operation, to_string(read_as), checks::describe(*this));
}

Array Array::copy() const {
  checks::require_defined("copy", *this);
  Array result = empty(shape_, dtype_, device_);
  if (size_ > 0) backend_for(device_).copy(*this, result);
  return result;
}

Array Array::contiguous() const { return is_contiguous() ? *this : copy(); }

Array Array::cast(DType dtype) const {
  checks::require_defined("cast", *this);
  if (dtype == dtype_) return *this;
  Array result = empty(shape_, dtype, device_);
  if (size_ > 0) backend_for(device_).cast(*this, result);
  return result;
}

namespace {

/// Throws CaptureError for a copy between a captured CPU device and one of another kind, whose backend alone sees it
/// and takes the CPU device's memory as the host's.
void require_seen_by_capture(Device from, Device to) {
  const Capture* const capture = active_capture();
  if (capture == nullptr || capture->device().kind != DeviceKind::cpu || from.kind == to.kind) return;
  if (capture->device() == from || capture->device() == to)
    raise<CaptureError>("[capture] the step copies from {} to {}: a captured step works on one device", to_string(from),
                        to_string(to));
}

}  // namespace

Array Array::to(Device device) const {
  checks::require_defined("to", *this);
  if (device == device_) return *this;
  require_seen_by_capture(device_, device);
  const Array source = contiguous();
  Array result = empty(shape_, dtype_, device);
  if (size_ == 0) return result;
  if (device.kind == DeviceKind::cpu) {
    backend_for(device_).copy_to_host(source, result.raw_data());
  } else if (device_.kind == DeviceKind::cpu) {
    compute_stream(device_).synchronize();
    backend_for(device).copy_from_host(source.raw_data(), result);
  } else {
    backend_for(device).copy_from_device(source, result);
  }
  return result;
}

void Array::fill(Scalar value) {
  checks::require_defined("fill", *this);
  require_fit("fill", value, dtype_);
  count_write("fill");
  if (size_ > 0) backend_for(device_).fill(*this, value);
}

void Array::copy_from(const Array& source) {
  checks::require_defined("copy_from", *this);
  checks::require_defined("copy_from", source);
  if (shape_ != source.shape_)
    raise<ShapeError>("[copy_from] shapes differ: {} into {}", checks::describe(source), checks::describe(*this));
  if (dtype_ != source.dtype_) checks::raise_dtypes("copy_from", source, *this);
  if (size_ == 0) return;
  count_write("copy_from");
  const auto on_cpu = [](const Array& array) { return array.device_.kind == DeviceKind::cpu; };
  if (source.device_ == device_ || on_cpu(*this) || on_cpu(source) || !is_contiguous())
    return backend_for(device_).copy(source.to(device_), *this);
  backend_for(device_).copy_from_device(source.contiguous(), *this);
}

template <class T> std::vector<T> Array::to_vector() const {
  if (!defined() || dtype_ != dtype_of<T>) raise_dtype("to_vector", dtype_of<T>);
  const Array source = contiguous();
  const auto count = static_cast<std::size_t>(size_);
  if constexpr (std::is_same_v<T, bool>) {  // std::vector<bool> has no array inside
    const std::unique_ptr<bool[]> unpacked(new bool[count]);
    backend_for(device_).copy_to_host(source, unpacked.get());
    return std::vector<bool>(unpacked.get(), unpacked.get() + count);
  } else {
    std::vector<T> values(count);
    backend_for(device_).copy_to_host(source, values.data());
    return values;
  }
}

template <class T> T Array::item() const {
  checks::require_defined("item", *this);
  if (size_ != 1) raise<ShapeError>("[item] needs exactly one element, not {}", checks::describe(*this));
  return visit_dtype(dtype_, [&]<class Element>(std::type_identity<Element>) {
    Element value{};
    backend_for(device_).copy_to_host(*this, &value);
    return convert<T>(value);
  });
}

#define TUTTI_INSTANTIATE(T)                           \
  template std::vector<T> Array::to_vector<T>() const; \
  template T Array::item<T>() const;
TUTTI_INSTANTIATE(float)
TUTTI_INSTANTIATE(double)
TUTTI_INSTANTIATE(std::int32_t)
TUTTI_INSTANTIATE(std::int64_t)
TUTTI_INSTANTIATE(bool)
TUTTI_INSTANTIATE(BFloat16)
TUTTI_INSTANTIATE(Float16)
TUTTI_INSTANTIATE(std::int8_t)
TUTTI_INSTANTIATE(std::uint8_t)
#undef TUTTI_INSTANTIATE

}  // namespace tutti
