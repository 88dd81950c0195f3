// SPDX-License-Identifier: Apache-2.0
// Reductions to elements by their place in order.
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/lines.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

#include <cmath>
#include <limits>

namespace tutti {

namespace {

// Lines [..., n], n > 0, and their places in order.
class OrderedLines {
 public:
  OrderedLines(std::string_view operation, const Tensor& x, const Axes& axes)
      : values_(lines_of(operation, x, axes).values), order_(argsort(values_, -1)) {
    if (length() == 0) raise<ShapeError>("[{}] there is nothing to choose from in {}", operation, to_string(x.shape()));
  }
  std::int64_t length() const { return values_.length(-1); }
  Tensor place(std::int64_t i) const { return slice(order_, -1, i, i + 1); }
  Tensor at(const Tensor& place) const { return gather_places(values_, -1, place); }
  Tensor has_nan() const { return isnan(at(place(length() - 1))); }  // NaN is the last of all

 private:
  Tensor values_;
  Tensor order_;
};

// a + share (b - a); where that distance overflows or is none, as of equal infinities, each weighted by itself.
Tensor between(const Tensor& a, const Tensor& b, double share) {
  return where(isfinite(b - a), lerp(a, b, share), a * (1 - share) + b * share);
}

// What was found of each of x's lines, [..., 1], in the result's shape.
Tensor in_shape(const Tensor& found, std::string_view operation, const Tensor& x, const Axes& axes, bool keep_dims) {
  const Tensor kept = reshape(found, with_kept_axes(x, axes, operation));
  if (keep_dims) return kept;
  return axes.empty() ? reshape(kept, {}) : squeeze(kept, axes);
}

}  // namespace

Tensor median(const Tensor& x, const Axes& axes, bool keep_dims) {
  const OperationScope scope("median", x);
  const OrderedLines lines("median", x, axes);
  Tensor middle = lines.place((lines.length() - 1) / 2);
  if (is_floating(x.dtype())) middle = where(lines.has_nan(), lines.place(lines.length() - 1), middle);
  return in_shape(lines.at(middle), "median", x, axes, keep_dims);
}

Tensor quantile(const Tensor& x, double q, const Axes& axes, bool keep_dims) {
  const OperationScope scope("quantile", x);
  if (!(q >= 0.0 && q <= 1.0)) raise<Error>("[quantile] q is {}: it must be between 0 and 1", q);
  const Tensor number = promote_into(elementwise::Domain::floating, "quantile", x);
  const OrderedLines lines("quantile", widened(number), axes);
  const double position = q * static_cast<double>(lines.length() - 1);
  const auto below = static_cast<std::int64_t>(std::floor(position));
  Tensor value = lines.at(lines.place(below));
  if (const double share = position - static_cast<double>(below); share > 0)
    value = between(value, lines.at(lines.place(below + 1)), share);
  value = where(lines.has_nan(), std::numeric_limits<double>::quiet_NaN(), value);
  return in_shape(cast(value, number.dtype()), "quantile", x, axes, keep_dims);
}

}  // namespace tutti
