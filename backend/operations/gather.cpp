// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

namespace tutti {
namespace {

/// Checks an index that selects from `shape` along `axis`; the axis, counted from the front.
std::size_t check_index(std::string_view name, const Shape& shape, std::int64_t axis, const Array& index) {
  checks::require_dtype(name, index, DType::i64);
  const std::size_t place = normalize_axis(name, axis, shape.size());
  bool fits = index.rank() == shape.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = i == place || index.shape()[i] <= shape[i];
  if (!fits)
    raise<ShapeError>("[{}] index {} does not fit {} along axis {}", name, to_string(index.shape()), to_string(shape),
                      axis);
  if (shape[place] == 0 && index.size() > 0)
    raise<ShapeError>("[{}] axis {} of {} has no elements", name, axis, to_string(shape));
  return place;
}

}  // namespace

Array gather(const Array& input, std::int64_t axis, const Array& index) {
  checks::require_same_device("gather", input, index);
  const std::size_t place = check_index("gather", input.shape(), axis, index);
  Array result = Array::empty(index.shape(), input.dtype(), input.device());
  if (result.size() > 0) backend_for(input.device()).gather(input.contiguous(), place, index, result);
  return result;
}

Array scatter_add(const Shape& shape, const Array& updates, std::int64_t axis, const Array& index, const Array& out) {
  checks::require_same_device("scatter_add", updates, index);
  checks::require_number("scatter_add", updates);
  const std::size_t place = check_index("scatter_add", shape, axis, index);
  checks::require_shape("scatter_add", "index", index, updates.shape());
  if (is_narrow(updates))
    return narrowed("scatter_add", scatter_add(shape, widened(updates), axis, index), updates.dtype(), out);
  Array result = checks::output("scatter_add", out, shape, updates.dtype(), updates.device());
  result.fill(0);
  if (updates.size() > 0)
    backend_for(updates.device()).scatter(Scatter::add, updates.contiguous(), place, index, result);
  return result;
}

Array scatter(Scatter kind, const Array& x, std::int64_t axis, const Array& index, const Array& updates) {
  checks::require_alike("scatter", x, updates);
  checks::require_same_device("scatter", updates, index);
  checks::require_enumerator("scatter", "Scatter", kind, Scatter::min);
  if (kind != Scatter::set) checks::require_number("scatter", x);
  const std::size_t place = check_index("scatter", x.shape(), axis, index);
  checks::require_shape("scatter", "index", index, updates.shape());
  if (is_narrow(x) && kind != Scatter::set)
    return narrowed("scatter", scatter(kind, widened(x), axis, index, widened(updates)), x.dtype());
  Array result = x.copy();
  if (updates.size() > 0) backend_for(x.device()).scatter(kind, updates.contiguous(), place, index, result);
  return result;
}

Array concatenate(std::span<const Array> parts, std::int64_t axis) {
  if (parts.empty()) raise<ShapeError>("[concatenate] there are no arrays");
  const Array& first = parts.front();
  checks::require_defined("concatenate", first);
  const std::size_t place = normalize_axis("concatenate", axis, first.rank());
  Shape shape = first.shape();
  for (const Array& part : parts.subspan(1)) {
    checks::require_alike("concatenate", first, part);
    Shape expected = part.shape();
    if (part.rank() == first.rank()) expected[place] = first.shape()[place];
    if (expected != first.shape())
      raise<ShapeError>("[concatenate] shapes {} and {} differ beside axis {}", to_string(first.shape()),
                        to_string(part.shape()), axis);
    shape[place] = (CheckedSize(shape[place]) + part.shape()[place])
                       .get("concatenate", "{} parts along axis {}", parts.size(), axis);
  }
  Array result = Array::empty(shape, first.dtype(), first.device());
  std::int64_t begin = 0;
  for (const Array& part : parts) {
    const std::int64_t end = begin + part.shape()[place];
    result.slice(static_cast<std::int64_t>(place), begin, end).copy_from(part);
    begin = end;
  }
  return result;
}

}  // namespace tutti
