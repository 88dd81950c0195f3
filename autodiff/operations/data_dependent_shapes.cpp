// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/data_dependent_shapes.h>

#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace tutti {

namespace {

Tensor numbered(std::int64_t count, Device device) { return Tensor(Array::arange(count, DType::i64, device)); }

// The places of what is true in a mask [n], ascending. What is false is put behind the last, and left out.
Tensor true_places(const Tensor& mask) {
  const std::int64_t length = mask.size();
  if (length == 0) return numbered(0, mask.device());
  const Tensor places = cumsum(mask, 0) - 1;
  const std::int64_t count = slice(places, 0, length - 1, length).item<std::int64_t>() + 1;
  const Tensor targets = where(mask, places, count);
  const Tensor unset(Array::zeros({count + 1}, DType::i64, mask.device()));
  return slice(scatter_places(unset, 0, targets, numbered(length, mask.device())), 0, 0, count);
}

}  // namespace

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  const OperationScope scope("masked_select", x, mask);
  if (mask.dtype() != DType::boolean)
    raise<DTypeError>("[masked_select] the mask is {}: compare to get a bool", to_string(mask.dtype()));
  if (mask.device() != x.device())
    raise<DeviceError>("[masked_select] operands are on different devices: {} and {}", to_string(x.device()),
                       to_string(mask.device()));
  const Shape shape = broadcast_shapes("masked_select", x.shape(), mask.shape());
  const Tensor places = true_places(flatten(broadcast_to(mask, shape)));
  return take(flatten(broadcast_to(x, shape)), places, 0);
}

Tensor argwhere(const Tensor& x) {
  const OperationScope scope("argwhere", x);
  const Tensor places = true_places(flatten(x.detach() != 0));
  const std::int64_t count = places.size();
  std::vector<Tensor> positions;
  std::int64_t inner = x.size();
  for (const std::int64_t length : x.shape()) {
    if (count == 0) return Tensor(Array::zeros({0, static_cast<std::int64_t>(x.rank())}, DType::i64, x.device()));
    inner /= length;
    positions.push_back(floor_divide(places, inner) % length);
  }
  if (positions.empty()) return Tensor(Array::zeros({count, 0}, DType::i64, x.device()));
  return stack(positions, -1);
}

Unique unique(const Tensor& x) {
  const OperationScope scope("unique", x);
  const Tensor flat = flatten(x.detach());
  const std::int64_t length = flat.size();
  const Tensor order = argsort(flat, 0);
  const Tensor sorted = gather_places(flat, 0, order);
  if (length == 0) return {sorted, reshape(order, x.shape()), order};
  const Tensor left = slice(sorted, 0, 0, length - 1);
  const Tensor right = slice(sorted, 0, 1, length);
  Tensor differs = left != right;
  if (is_floating(x.dtype())) differs = differs & ~(isnan(left) & isnan(right));
  const Tensor begins = concatenate({Tensor(Array::full({1}, true, DType::boolean, x.device())), differs});
  const Tensor places = true_places(begins);
  const Tensor ends = Tensor(Array::full({1}, length, DType::i64, x.device()));
  const Tensor inverse = scatter_add_places({length}, cumsum(begins, 0) - 1, 0, order);
  return {gather_places(sorted, 0, places), reshape(inverse, x.shape()),
          concatenate({slice(places, 0, 1, places.size()), ends}) - places};
}

Tensor bincount(const Tensor& numbers, const Tensor& weights, std::int64_t min_length) {
  const OperationScope scope("bincount", numbers, weights);
  if (!is_integral(numbers.dtype()))
    raise<DTypeError>("[bincount] numbers are {}: they must be integers", to_string(numbers.dtype()));
  if (numbers.rank() != 1)
    raise<ShapeError>("[bincount] numbers are {}: they must have one axis", to_string(numbers.shape()));
  if (weights.shape() != numbers.shape())
    raise<ShapeError>("[bincount] weights are {} for numbers {}: each number has one", to_string(weights.shape()),
                      to_string(numbers.shape()));
  if (min_length < 0) raise<ShapeError>("[bincount] a length of {} at least: it must not be negative", min_length);
  const Tensor places = cast(numbers, DType::i64);
  std::int64_t length = min_length;
  if (numbers.size() > 0) {
    const auto ends = stack({min(places), max(places)}).to_vector<std::int64_t>();
    if (ends[0] < 0) raise<ShapeError>("[bincount] {} is among the numbers: they must not be negative", ends[0]);
    if (ends[1] == std::numeric_limits<std::int64_t>::max())
      raise<ShapeError>("[bincount] {} is among the numbers: there are no counts of so many", ends[1]);
    length = std::max(length, ends[1] + 1);
  }
  return scatter_add_places({length}, is_floating(weights.dtype()) ? weights : cast(weights, DType::i64), 0, places);
}

Tensor bincount(const Tensor& numbers, std::int64_t min_length) {
  const OperationScope scope("bincount", numbers);
  return bincount(numbers, Tensor(Array::full(numbers.shape(), 1, DType::i64, numbers.device())), min_length);
}

Tensor repeat_interleave(const Tensor& x, const Tensor& counts, std::int64_t axis) {
  const OperationScope scope("repeat_interleave", x, counts);
  const std::size_t place = normalize_axis("repeat_interleave", axis, x.rank());
  const std::int64_t length = x.shape()[place];
  if (!is_integral(counts.dtype()))
    raise<DTypeError>("[repeat_interleave] counts are {}: they must be integers", to_string(counts.dtype()));
  if (counts.shape() != Shape{length})
    raise<ShapeError>("[repeat_interleave] counts {} for axis {} of {}", to_string(counts.shape()), axis,
                      to_string(x.shape()));
  if (length == 0) return x;
  const Tensor whole = cast(counts, DType::i64);
  const Tensor ends = cumsum(whole, 0);
  // All in one reading: the number of positions, the least count, and whether a sum went beyond the largest number.
  const auto read =
      stack({slice(ends, 0, length - 1, length).squeeze(), min(whole), min(ends)}).to_vector<std::int64_t>();
  if (read[1] < 0) raise<ShapeError>("[repeat_interleave] {} repeats: they must not be negative", read[1]);
  if (read[2] < 0 || read[0] == std::numeric_limits<std::int64_t>::max())
    raise<ShapeError>("[repeat_interleave] the counts' sum does not fit in 64 bits");
  // Each position is of the row that as many end before: the sum of the ends up to it.
  const Tensor ended = scatter_add_places({read[0] + 1}, ones_like(ends), 0, ends);
  return gather_lines(x, place, slice(cumsum(ended, 0), 0, 0, read[0]));
}

}  // namespace tutti
