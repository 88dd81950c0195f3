// SPDX-License-Identifier: Apache-2.0
// Axis by axis: each element of the result is the sum of a few of the axis, its taps, times their weights.
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/cubic_weights.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/raise.h>

#include <optional>
#include <vector>

namespace tutti {

namespace {

struct Axis {
  std::int64_t length;
  std::int64_t size;
  std::optional<double> factor;  // if it was given in place of the size

  /// Input elements for each of the result.
  double step(bool align_corners) const {
    if (align_corners) return size > 1 ? static_cast<double>(length - 1) / static_cast<double>(size - 1) : 0;
    return factor ? 1 / *factor : static_cast<double>(length) / static_cast<double>(size);
  }
};

/// One element of the axis for each of the result, and what it weighs.
struct Tap {
  Tensor places;   // [size], i64
  Tensor weights;  // [size], f64; undefined: 1
};

// Of arange, so that a step with them can be captured.
Tensor numbers(const Axis& axis, const Tensor& x, DType dtype) {
  return arange(axis.size, {.dtype = dtype, .device = x.device()});
}

std::vector<Tap> nearest_taps(const Axis& axis, bool exact, const Tensor& x) {
  Tensor places;
  if (axis.factor)
    places = cast((numbers(axis, x, DType::f64) + (exact ? 0.5 : 0.0)) * axis.step(false), DType::i64);
  else
    places = floor_divide((2 * numbers(axis, x, DType::i64) + (exact ? 1 : 0)) * axis.length, 2 * axis.size);
  return {{clip(places, 0, axis.length - 1), {}}};
}

std::vector<Tap> weighted_taps(const Axis& axis, const InterpolateOptions& options, const Tensor& x) {
  const double step = axis.step(options.align_corners);
  const bool linear = options.mode == Interpolation::linear;
  Tensor source = numbers(axis, x, DType::f64) * step;
  if (!options.align_corners) source = source + (step - 1) * 0.5;
  if (linear) source = clip(source, 0, static_cast<double>(axis.length - 1));
  const Tensor first = floor(source);
  const Tensor beyond = source - first;
  std::vector<Tensor> weights{1 - beyond, beyond};
  if (!linear) {
    const auto cubic = cubic_weights(beyond);
    weights.assign(cubic.begin(), cubic.end());
  }
  std::vector<Tap> taps;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const double from_first = static_cast<double>(k) - (linear ? 0 : 1);
    const Tensor places = clip(first + from_first, 0, static_cast<double>(axis.length - 1));
    taps.push_back({cast(places, DType::i64), weights[k]});
  }
  return taps;
}

Tensor sum_of_taps(const Tensor& x, std::size_t place, const std::vector<Tap>& taps) {
  Shape column(x.rank() - place, 1);
  column[0] = -1;
  Tensor total;
  for (const auto& [places, weights] : taps) {
    Tensor part = gather_lines(x, place, places);
    if (weights.defined()) part = part * reshape(cast(weights, x.dtype()), column);
    total = total.defined() ? total + part : part;
  }
  return total;
}

Tensor resize_axis(const Tensor& x, std::size_t place, const Axis& axis, const InterpolateOptions& options) {
  const bool nearest = options.mode == Interpolation::nearest || options.mode == Interpolation::nearest_exact;
  if (!nearest) return sum_of_taps(x, place, weighted_taps(axis, options, x));
  if (!axis.factor && axis.size % axis.length == 0)
    return repeat_interleave(x, axis.size / axis.length, static_cast<std::int64_t>(place));
  return sum_of_taps(x, place, nearest_taps(axis, options.mode == Interpolation::nearest_exact, x));
}

/// Of the result, behind the channels.
std::vector<Axis> axes_of(const Shape& shape, const InterpolateOptions& options) {
  const std::size_t count = shape.size() - 2;
  const auto& [size, scale, mode, align_corners] = options;
  if (size.empty() && scale.empty()) raise<ShapeError>("[interpolate] a size or factors are needed");
  if (!size.empty() && !scale.empty())
    raise<ShapeError>("[interpolate] size {} and factors {} are both given: one of them is needed", to_string(size),
                      fmt::join(scale, ", "));
  if (scale.empty() ? size.size() != count : scale.size() != 1 && scale.size() != count)
    raise<ShapeError>("[interpolate] {} {} for the {} axes behind the channels of {}",
                      scale.empty() ? size.size() : scale.size(), scale.empty() ? "sizes" : "factors", count,
                      to_string(shape));
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < count; ++i) {
    Axis axis{shape[i + 2], 0, std::nullopt};
    if (scale.empty()) {
      axis.size = size[i];
    } else {
      axis.factor = scale.size() == 1 ? scale[0] : scale[i];
      if (!(*axis.factor > 0 && *axis.factor < 1e9))
        raise<ShapeError>("[interpolate] factor {}: it must be positive and finite", *axis.factor);
      const double exact = static_cast<double>(axis.length) * *axis.factor;
      if (exact >= 0x1p62)
        raise<ShapeError>("[interpolate] axis {} of {} with factor {}: the size overflows 64 bits", i + 2,
                          to_string(shape), *axis.factor);
      axis.size = static_cast<std::int64_t>(exact);
      if (*axis.factor * static_cast<double>(axis.length) == static_cast<double>(axis.size) && axis.size > 0 &&
          static_cast<double>(axis.size) / static_cast<double>(axis.length) == *axis.factor)
        axis.factor.reset();  // the size says the same
    }
    if (axis.length < 1 || axis.size < 1)
      raise<ShapeError>("[interpolate] axis {} of {} to {} elements: both must be at least 1", i + 2, to_string(shape),
                        axis.size);
    (2 * (CheckedSize(axis.size) + 1) * axis.length)
        .get("interpolate", "axis {} of {} to {} elements", i + 2, shape, axis.size);
    axes.push_back(axis);
  }
  return axes;
}

Tensor average(const Tensor& x, const std::vector<Axis>& axes) {
  if (axes.size() == 1) return adaptive_avg_pool1d(x, axes[0].size);
  if (axes.size() == 2) return adaptive_avg_pool2d(x, {axes[0].size, axes[1].size});
  return adaptive_avg_pool3d(x, {axes[0].size, axes[1].size, axes[2].size});
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  const OperationScope scope("interpolate", x);
  if (x.rank() < 3 || x.rank() > 5)
    raise<ShapeError>("[interpolate] [n, c, l...] of one to three axes l is needed, not {}", to_string(x.shape()));
  if (!is_floating(x.dtype())) raise<DTypeError>("[interpolate] takes a floating type, not {}", to_string(x.dtype()));
  const bool weighted = options.mode == Interpolation::linear || options.mode == Interpolation::cubic;
  if (options.align_corners && !weighted)
    raise("[interpolate] align_corners is for linear and cubic interpolation alone");
  checks::require_enumerator("interpolate", "Interpolation", options.mode, Interpolation::area);
  const std::vector<Axis> axes = axes_of(x.shape(), options);
  Shape result{x.shape()[0], x.shape()[1]};
  for (const Axis& axis : axes) result.push_back(axis.size);
  checked_element_count("interpolate", result);
  if (options.mode == Interpolation::area) return average(x, axes);
  const Autocast as_given(DType::f32);
  Tensor y = weighted ? widened(x) : x;
  for (std::size_t i = axes.size(); i-- > 0;) {
    const bool same = axes[i].size == axes[i].length && (options.mode != Interpolation::cubic || !axes[i].factor);
    if (!same) y = resize_axis(y, i + 2, axes[i], options);
  }
  return cast(y, x.dtype());
}

}  // namespace tutti
