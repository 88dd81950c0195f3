// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <vector>

namespace tutti {
namespace {

constexpr std::string_view name_of(Reduction kind) {
  switch (kind) {
    case Reduction::sum: return "sum";
    case Reduction::sum_of_squares: return "sum_of_squares";
    case Reduction::max: return "max";
    case Reduction::min: return "min";
    case Reduction::prod: return "prod";
  }
  return "reduce";
}

/// The input's shape with length 1 on the reduced axes.
Shape kept_shape(std::string_view name, const Shape& shape, std::span<const std::int64_t> axes) {
  if (axes.empty()) return Shape(shape.size(), 1);
  Shape kept = shape;
  Dims seen(shape.size(), 0);
  for (const std::int64_t given : axes) {
    if (is_axis_of_scalar(given, shape)) continue;
    const std::size_t axis = normalize_axis(name, given, shape.size());
    if (seen[axis]++ != 0)
      raise<ShapeError>("[{}] axis {} is named twice, for shape {}", name, given, to_string(shape));
    kept[axis] = 1;
  }
  return kept;
}

/// `shape` without the reduced axes.
Shape dropped_shape(const Shape& shape, std::span<const std::int64_t> axes) {
  if (axes.empty() || shape.empty()) return {};
  Dims reduced(shape.size(), 0);
  for (const std::int64_t given : axes) reduced[normalize_axis("reduce", given, shape.size())] = 1;
  Shape dropped;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (reduced[axis] == 0) dropped.push_back(shape[axis]);
  return dropped;
}

/// Reduces to `kept`, which broadcasts to the input's shape.
Array reduce_to(Reduction kind, const Array& input, const Shape& kept, const Array& out = {}) {
  const std::string_view name = name_of(kind);
  checks::require_number(name, input);
  if (is_narrow(input)) return narrowed(name, reduce_to(kind, widened(input), kept), input.dtype(), out);
  Array result = checks::output(name, out, kept, input.dtype(), input.device());
  if (result.size() == 0) return result;
  if (input.size() > 0) {
    backend_for(input.device()).reduce(kind, input, result);
    return result;
  }
  if (kind == Reduction::max || kind == Reduction::min)
    raise<ShapeError>("[{}] nothing to choose from in shape {}", name, to_string(input.shape()));
  result.fill(kind == Reduction::prod ? 1 : 0);
  return result;
}

}  // namespace

Array reduce(Reduction kind, const Array& input, std::span<const std::int64_t> axes, bool keep_dims) {
  const std::string_view name = name_of(kind);
  checks::require_enumerator(name, "Reduction", kind, Reduction::prod);
  checks::require_defined(name, input);
  if (kind == Reduction::sum && input.dtype() == DType::boolean)
    raise<DTypeError>("[sum] bools have no sum: use count_nonzero, or cast");
  const Array result = reduce_to(kind, input, kept_shape(name, input.shape(), axes));
  return keep_dims ? result : result.reshape(dropped_shape(input.shape(), axes));
}

Array sum(const Array& input, std::span<const std::int64_t> axes, bool keep_dims) {
  return reduce(Reduction::sum, input, axes, keep_dims);
}

Array sum_to(const Array& x, const Shape& shape, const Array& out) {
  checks::require_defined("sum_to", x);
  if (x.shape() == shape) return x;
  const std::size_t shift = x.rank() - std::min(x.rank(), shape.size());
  bool fits = shape.size() <= x.rank();
  Shape kept(x.rank(), 1);
  for (std::size_t axis = 0; fits && axis < shape.size(); ++axis) {
    kept[axis + shift] = shape[axis];
    fits = shape[axis] == 1 || shape[axis] == x.shape()[axis + shift];
  }
  if (!fits) raise<ShapeError>("[sum_to] shape {} does not broadcast to {}", to_string(shape), to_string(x.shape()));
  if (kept == x.shape()) return x.reshape(shape);
  return reduce_to(Reduction::sum, x, kept, out.defined() ? out.reshape(kept) : out).reshape(shape);
}

Array arg_reduce(ArgReduction kind, const Array& input, std::int64_t axis, bool keep_dims) {
  const std::string_view name = kind == ArgReduction::arg_max ? "argmax" : "argmin";
  checks::require_enumerator(name, "ArgReduction", kind, ArgReduction::arg_min);
  checks::require_defined(name, input);
  checks::require_number(name, input);
  if (is_narrow(input)) return arg_reduce(kind, widened(input), axis, keep_dims);
  if (is_axis_of_scalar(axis, input.shape())) return arg_reduce(kind, input.expand_dims(0), 0);
  const std::size_t place = normalize_axis(name, axis, input.rank());
  Shape shape = input.shape();
  shape[place] = 1;
  const Array result = Array::empty(shape, DType::i64, input.device());
  if (result.size() > 0) {
    if (input.size() == 0)
      raise<ShapeError>("[{}] nothing to choose from along axis {} of {}", name, axis, to_string(input.shape()));
    backend_for(input.device()).arg_reduce(kind, input, place, result);
  }
  return keep_dims ? result : result.squeeze(static_cast<std::int64_t>(place));
}

}  // namespace tutti
