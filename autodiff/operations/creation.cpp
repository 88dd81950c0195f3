// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/creation.h>

#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/numbers/arithmetic_sequence.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string_view>

namespace tutti {

namespace {

template <class T> T as(const Scalar& number) { return number.to<T>(); }
template <class T> T as(double number) { return convert<T>(number); }
template <class T> T as(std::int64_t number) { return convert<T>(number); }

/// value(0), value(1), ... in that dtype.
template <class Value>
Tensor from_host(const Value& value, const Shape& shape, DType dtype, const TensorOptions& options) {
  const std::int64_t count =
      Array::empty(shape, dtype, options.device).size();  // what no machine holds is refused here
  return visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    const std::unique_ptr<T[]> values(new T[static_cast<std::size_t>(count)]);
    for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = as<T>(value(i));
    const std::span<const T> all(values.get(), static_cast<std::size_t>(count));
    return Tensor(Array::from(all, shape, options.device), options.requires_grad);
  });
}

/// The same for numbers in order, the same at every call.
template <class Value>
Tensor sequence(const char* name, std::int64_t count, const Value& value, DType dtype, const TensorOptions& options) {
  for (const std::int64_t end : {std::int64_t{0}, count - 1})
    if (count > 0) require_fit(name, value(end), dtype);
  const HostConstants always_these;
  return from_host(value, {count}, dtype, options);
}

DType common_dtype(std::span<const Scalar> numbers) {
  const auto any = [&](DType dtype) {
    return std::ranges::any_of(numbers, [&](const Scalar& number) { return number.default_dtype() == dtype; });
  };
  if (numbers.empty() || any(DType::f32)) return DType::f32;
  return any(DType::i64) ? DType::i64 : DType::boolean;
}

/// Of `by`, which is not 0, from one end to before the other. Unsigned, where no two are too far apart.
std::int64_t steps_between(std::int64_t from, std::int64_t end, std::int64_t by) {
  if (by > 0 ? end <= from : end >= from) return 0;
  const auto a = static_cast<std::uint64_t>(from);
  const auto b = static_cast<std::uint64_t>(end);
  const auto step = static_cast<std::uint64_t>(by);
  const std::uint64_t steps = by > 0 ? (b - a - 1) / step + 1 : (a - b - 1) / (0 - step) + 1;
  return static_cast<std::int64_t>(
      std::min(steps, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())));
}

Tensor filled(const Shape& shape, const Scalar& value, DType dtype, const TensorOptions& options) {
  return Tensor(Array::full(shape, value, options.dtype.value_or(dtype), options.device), options.requires_grad);
}

}  // namespace

NestedNumbers::NestedNumbers(std::initializer_list<NestedNumbers> rows) {
  shape_.push_back(static_cast<std::int64_t>(rows.size()));
  if (rows.size() == 0) return;
  for (const std::int64_t length : rows.begin()->shape()) shape_.push_back(length);
  for (const NestedNumbers& row : rows) {
    if (row.shape() != rows.begin()->shape())
      raise<ShapeError>("[tensor] rows of shapes {} and {} in one pair of braces", to_string(rows.begin()->shape()),
                        to_string(row.shape()));
    numbers_.insert(numbers_.end(), row.numbers().begin(), row.numbers().end());
  }
}

Tensor tensor(const NestedNumbers& nested, const TensorOptions& options) {
  const std::span<const Scalar> numbers = nested.numbers();
  const OperationScope scope("tensor");
  const DType dtype = options.dtype.value_or(common_dtype(numbers));
  for (const Scalar& number : numbers) require_fit("tensor", number, dtype);
  return from_host([&](std::int64_t i) { return numbers[static_cast<std::size_t>(i)]; }, nested.shape(), dtype,
                   options);
}

Tensor zeros(const Shape& shape, const TensorOptions& options) {
  const OperationScope scope("zeros");
  return filled(shape, 0, DType::f32, options);
}
Tensor ones(const Shape& shape, const TensorOptions& options) {
  const OperationScope scope("ones");
  return filled(shape, 1, DType::f32, options);
}
Tensor full(const Shape& shape, const Scalar& value, const TensorOptions& options) {
  const OperationScope scope("full");
  return filled(shape, value, value.default_dtype(), options);
}

Tensor zeros_like(const Tensor& x) {
  const OperationScope scope("zeros_like", x);
  return full_like(x, 0);
}
Tensor ones_like(const Tensor& x) {
  const OperationScope scope("ones_like", x);
  return full_like(x, 1);
}
Tensor full_like(const Tensor& x, const Scalar& value) {
  const OperationScope scope("full_like", x);
  return Tensor(Array::full(x.shape(), value, x.dtype(), x.device()));
}

Tensor arange(const Scalar& begin, const Scalar& end, const Scalar& step, const TensorOptions& options) {
  const OperationScope scope("arange");
  const Scalar three[] = {begin, end, step};
  const DType kind = common_dtype(three);
  const double first = begin.to<double>();
  const double distance = step.to<double>();
  const double steps = (end.to<double>() - first) / distance;
  if (!std::isfinite(steps) || !std::isfinite(distance) || !std::isfinite(first))
    raise("[arange] from {} to {} in steps of {} has no end", to_string(begin), to_string(end), to_string(step));
  if (kind != DType::f32) {
    const auto from = begin.to<std::int64_t>();
    const auto by = step.to<std::int64_t>();
    const std::int64_t count = steps_between(from, end.to<std::int64_t>(), by);
    const DType dtype = options.dtype.value_or(DType::i64);
    if (dtype != DType::boolean)
      return Tensor(Array::arange(count, dtype, options.device, from, by), options.requires_grad);
    return sequence(
        "arange", count, [&](std::int64_t i) { return numbered<std::int64_t>(from, by, i); }, dtype, options);
  }
  constexpr double kMost = 9e18;
  const auto count = static_cast<std::int64_t>(std::clamp(std::ceil(steps), 0.0, kMost));
  return sequence(
      "arange", count, [&](std::int64_t i) { return first + static_cast<double>(i) * distance; },
      options.dtype.value_or(kind), options);
}

Tensor arange(const Scalar& begin, const Scalar& end, const TensorOptions& options) {
  return arange(begin, end, 1, options);
}
Tensor arange(const Scalar& end, const TensorOptions& options) { return arange(0, end, 1, options); }

Tensor linspace(double begin, double end, std::int64_t count, const TensorOptions& options) {
  const OperationScope scope("linspace");
  if (count < 0) raise<ShapeError>("[linspace] negative count {}", count);
  const double gaps = static_cast<double>(std::max<std::int64_t>(count - 1, 1));
  const auto at = [&](std::int64_t i) {
    return i > 0 && i == count - 1 ? end : begin + static_cast<double>(i) * ((end - begin) / gaps);
  };
  return sequence("linspace", count, at, options.dtype.value_or(DType::f32), options);
}

Tensor eye(std::int64_t rows, std::int64_t columns, const TensorOptions& options) {
  const OperationScope scope("eye");
  const Shape shape{rows, columns};
  const Tensor result = filled(shape, 0, DType::f32, {.dtype = options.dtype, .device = options.device});
  const std::int64_t ones = std::min(shape[0], shape[1]);
  const std::int64_t stride = shape[1] + 1;
  if (ones > 0) result.reshape({-1}).slice(0, 0, (ones - 1) * stride + 1, stride).fill_(1);
  return options.requires_grad ? Tensor(result.array(), true) : result;
}

}  // namespace tutti
