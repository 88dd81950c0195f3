// SPDX-License-Identifier: Apache-2.0
// The sum over the elements around each place of the grid, gathered by their places in the flat image and weighted by
// their distances.
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/cubic_weights.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti {

namespace {

/// Mirrored at the edges, as often as it takes.
Tensor reflected(const Tensor& place, std::int64_t length, bool align_corners) {
  const double edge = align_corners ? 0 : -0.5;
  const double span = static_cast<double>(length) - (align_corners ? 1 : 0);
  if (span == 0) return zeros_like(place);
  const Tensor distance = fmod(abs(place - edge), 2 * span);
  return where(distance > span, 2 * span - distance, distance) + edge;
}

Tensor within(const Tensor& place, std::int64_t length, const GridSampleOptions& options) {
  if (options.padding == GridPadding::zeros) return place;
  const Tensor near =
      options.padding == GridPadding::reflection ? reflected(place, length, options.align_corners) : place;
  return clip(near, 0, static_cast<double>(length - 1));
}

/// One of the elements along an axis that a place is made of: where it is, its weight, and whether it is in the image.
struct Neighbour {
  Tensor place;   // i64
  Tensor weight;  // undefined: 1
  Tensor inside;  // undefined: all are
};

Neighbour neighbour(const Tensor& place, const Tensor& weight, std::int64_t length, bool zeros_beyond) {
  const auto last = static_cast<double>(length - 1);
  const Tensor at = place.detach();
  Neighbour found{cast(clip(at, 0, last), DType::i64), weight, {}};
  if (!zeros_beyond) return found;
  found.inside = (at >= 0.0) & (at <= last);
  if (weight.defined()) found.weight = where(found.inside, weight, 0.0);  // infinitely far away it is NaN
  return found;
}

/// Along one axis: `grid`, -1 to 1, in elements of `length`.
std::vector<Neighbour> neighbours(const Tensor& grid, std::int64_t length, const GridSampleOptions& options) {
  const auto count = static_cast<double>(length);
  const Tensor exact = options.align_corners ? (grid + 1) * ((count - 1) / 2) : ((grid + 1) * count - 1) * 0.5;
  const bool zeros_beyond = options.padding == GridPadding::zeros;
  if (options.mode == Interpolation::nearest)
    return {neighbour(round(within(exact, length, options)), {}, length, zeros_beyond)};
  std::vector<Neighbour> found;
  if (options.mode == Interpolation::linear) {
    const Tensor place = within(exact, length, options);
    const Tensor first = floor(place).detach();
    const Tensor beyond = place - first;
    found.push_back(neighbour(first, 1 - beyond, length, zeros_beyond));
    found.push_back(neighbour(first + 1, beyond, length, zeros_beyond));
    return found;
  }
  const Tensor first = floor(exact).detach();
  const auto weights = cubic_weights(exact - first);
  for (int k = 0; k < 4; ++k)
    found.push_back(neighbour(within(first + (k - 1), length, options), weights[static_cast<std::size_t>(k)], length,
                              zeros_beyond));
  return found;
}

/// Those of two axes together, of which the second is `length` long.
std::vector<Neighbour> crossed(const std::vector<Neighbour>& rows, const std::vector<Neighbour>& columns,
                               std::int64_t length) {
  std::vector<Neighbour> all;
  for (const Neighbour& row : rows)
    for (const Neighbour& column : columns)
      all.push_back({row.place * length + column.place, row.weight.defined() ? row.weight * column.weight : Tensor(),
                     row.inside.defined() ? row.inside & column.inside : Tensor()});
  return all;
}

void check(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  const std::size_t rank = x.rank();
  if (rank != 4 && rank != 5)
    raise<ShapeError>("[grid_sample] [n, c, h, w] or [n, c, d, h, w] is needed, not {}", to_string(x.shape()));
  if (grid.rank() != rank || grid.length(0) != x.length(0) || grid.length(-1) != static_cast<std::int64_t>(rank) - 2)
    raise<ShapeError>("[grid_sample] grid {} does not fit {}: [n, ..., {}] is needed", to_string(grid.shape()),
                      to_string(x.shape()), rank - 2);
  for (std::size_t axis = 2; axis < rank; ++axis)
    if (x.shape()[axis] < 1) raise<ShapeError>("[grid_sample] {} has no elements to read", to_string(x.shape()));
  if (!is_floating(x.dtype()) || !is_floating(grid.dtype()))
    raise<DTypeError>("[grid_sample] takes floating types, not {} and {}", to_string(x.dtype()),
                      to_string(grid.dtype()));
  const bool known = options.mode == Interpolation::nearest || options.mode == Interpolation::linear ||
                     (options.mode == Interpolation::cubic && rank == 4);
  checks::require_enumerator("grid_sample", "GridPadding", options.padding, GridPadding::reflection);
  if (!known) raise("[grid_sample] the mode is nearest or linear, or cubic of images");
}

}  // namespace

Tensor grid_sample(const Tensor& given, const Tensor& given_grid, const GridSampleOptions& options) {
  const OperationScope scope("grid_sample", given, given_grid);
  check(given, given_grid, options);
  const auto [x, grid] =
      promote_pair(elementwise::Domain::floating, "grid_sample", widened(given), widened(given_grid));
  const std::size_t axes = x.rank() - 2;
  const Shape& from = x.shape();
  Shape to{from[0], from[1]};
  std::int64_t count = 1;  // of places in one image
  for (std::size_t i = 0; i < axes; ++i) to.push_back(grid.shape()[i + 1]), count *= to.back();
  const Tensor places = reshape(where(isnan(grid), -1.0, grid), {from[0], count, static_cast<std::int64_t>(axes)});
  std::vector<Neighbour> all;
  for (std::size_t i = 0; i < axes; ++i) {
    const Tensor along = places[{ellipsis, static_cast<std::int64_t>(axes - 1 - i)}];  // x is last
    std::vector<Neighbour> found = neighbours(along, from[i + 2], options);
    all = i == 0 ? std::move(found) : crossed(all, found, from[i + 2]);
  }
  const Shape taken{from[0], from[1], count};
  Tensor flat = flatten(x, 2);
  // What is beyond reads a zero behind the image, or, if so few places are read that a copy of it costs more, is
  // masked.
  const bool padded = options.padding == GridPadding::zeros && count >= flat.shape()[2];
  const std::int64_t nowhere = padded ? flat.shape()[2] : 0;
  if (padded) flat = pad(flat, {{}, {}, {0, 1}});
  Tensor total;
  for (const Neighbour& each : all) {
    const Tensor place = each.inside.defined() ? where(each.inside, each.place, nowhere) : each.place;
    Tensor part = gather_places(flat, 2, broadcast_to(expand_dims(place, 1), taken));
    if (each.inside.defined() && !padded) part = where(expand_dims(each.inside, 1), part, 0.0);
    if (each.weight.defined()) part = part * expand_dims(each.weight, 1);
    total = total.defined() ? total + part : part;
  }
  return cast(reshape(total, to), promote(given.dtype(), given_grid.dtype()));
}

}  // namespace tutti
