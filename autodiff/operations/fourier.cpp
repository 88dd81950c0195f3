// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tutti {
namespace {

using Kind = FourierTransform::Kind;

/// [length / 2 + 1, 1]: 1 for what stands for itself in the spectrum of real numbers, `value` for what stands for its
/// conjugate, too.
Tensor weights_of_pairs(std::int64_t length, double value, const Tensor& like) {
  const std::int64_t half = length / 2 + 1;
  std::vector<double> weights(static_cast<std::size_t>(half), value);
  weights.front() = 1;
  if (length % 2 == 0) weights.back() = 1;
  const HostConstants functions_of_the_shape;
  return tensor(weights, {half, 1}, {.dtype = like.dtype(), .device = like.device()});
}

/// Of rows along the last axis, of complex numbers as pairs behind it; without a factor.
Tensor transformed(const Tensor& rows, const FourierTransform& transform) {
  const Tensor inputs[] = {rows};
  return record("fourier", fourier(transform, rows.array()), inputs, [&] {
    return [transform](const auto&, const Tensor& dy, InputGradients& gradients) {
      const std::int64_t length = transform.length;
      switch (transform.kind) {
        case Kind::complex: return gradients.set(0, transformed(dy, {Kind::complex, !transform.inverse, length}));
        case Kind::real_to_complex: {
          const Tensor halved = dy * weights_of_pairs(length, 0.5, dy);
          return gradients.set(0, transformed(halved, {Kind::complex_to_real, true, length}));
        }
        case Kind::complex_to_real: {
          const Tensor spectrum = transformed(dy, {Kind::real_to_complex, false, length});
          return gradients.set(0, spectrum * weights_of_pairs(length, 2, dy));
        }
      }
    };
  });
}

/// What brings an axis to a length, cut or padded with zeros behind.
Tensor resized(const Tensor& x, std::int64_t axis, std::int64_t length) {
  const std::int64_t had = x.length(axis);
  if (length == had) return x;
  if (length < had) return slice(x, axis, 0, length);
  std::vector<Padding> widths(x.rank());
  widths[normalize_axis("fft", axis, x.rank())].after = length - had;
  return pad(x, widths);
}

Tensor floating(std::string_view name, const Tensor& x) { return promote_into(elementwise::Domain::floating, name, x); }

/// Both parts as they are computed, with the dtype of the result: bf16 and f16 are f32 until all axes are transformed
/// and scaled, as sums may be larger than what they come to.
struct Operand {
  ComplexTensor wide;
  DType dtype;
};

Operand operand_of(std::string_view name, const ComplexTensor& x) {
  const Tensor real = floating(name, x.real);
  const Tensor imaginary = x.imaginary.defined() ? floating(name, x.imaginary) : zeros_like(real);
  if (real.shape() != imaginary.shape())
    raise<ShapeError>("[{}] the real part is {}, the imaginary {}", name, to_string(real.shape()),
                      to_string(imaginary.shape()));
  return {{widened(real), widened(imaginary)}, promote(real.dtype(), imaginary.dtype())};
}

ComplexTensor rounded(const ComplexTensor& x, DType dtype) { return {cast(x.real, dtype), cast(x.imaginary, dtype)}; }

/// Both parts behind the last axis, which is that of the transform.
Tensor pairs_of(const ComplexTensor& x, std::int64_t axis) {
  return moveaxis(stack({x.real, x.imaginary}, -1), axis, -2);
}

ComplexTensor parts_of(const Tensor& pairs, std::int64_t axis) {
  const auto part = [&](std::int64_t i) { return moveaxis(squeeze(slice(pairs, -1, i, i + 1), {-1}), -1, axis); };
  return {part(0), part(1)};
}

double factor_of(const FourierTransform& transform, FourierNorm norm) {
  const auto n = static_cast<double>(transform.length);
  if (norm == FourierNorm::ortho) return 1 / std::sqrt(n);
  return transform.inverse == (norm == FourierNorm::backward) ? 1 / n : 1;
}

Tensor scaled(const Tensor& rows, const FourierTransform& transform, FourierNorm norm) {
  const double factor = factor_of(transform, norm);
  const Tensor result = transformed(rows, transform);
  return factor == 1 ? result : result * factor;
}

/// The axis from the front; throws ShapeError for one that is not there, and for a length below 1.
std::int64_t checked_axis(std::string_view name, const Tensor& x, const FourierAxis& along, std::int64_t length) {
  checks::require_enumerator(name, "FourierNorm", along.norm, FourierNorm::forward);
  const auto axis = static_cast<std::int64_t>(normalize_axis(name, along.axis, x.rank()));
  if (length < 1 || length > kMostPoints)
    raise<ShapeError>("[{}] {} points along axis {}: 1 to {} can be transformed", name, length, along.axis,
                      kMostPoints);
  return axis;
}

std::int64_t length_of(std::string_view name, const Tensor& x, const FourierAxis& along) {
  normalize_axis(name, along.axis, x.rank());
  return along.length.value_or(x.length(along.axis));
}

ComplexTensor complex_transform(std::string_view name, const ComplexTensor& x, const FourierAxis& along, bool inverse) {
  const std::int64_t length = length_of(name, x.real, along);
  const std::int64_t axis = checked_axis(name, x.real, along, length);
  const Operand operand = operand_of(name, x);
  const Tensor pairs = resized(pairs_of(operand.wide, axis), -2, length);
  return rounded(parts_of(scaled(pairs, {Kind::complex, inverse, length}, along.norm), axis), operand.dtype);
}

/// The transforms along several axes; `lengths` of one may be left out.
std::vector<FourierAxis> each_axis(std::string_view name, const Tensor& x, const FourierAxes& given) {
  Axes axes = given.axes;
  const std::size_t count = given.lengths.empty() ? x.rank() : given.lengths.size();
  if (axes.empty())
    for (std::size_t i = 0; i < count; ++i)
      axes.push_back(static_cast<std::int64_t>(i) - static_cast<std::int64_t>(count));
  if (!given.lengths.empty() && given.lengths.size() != axes.size())
    raise<ShapeError>("[{}] {} lengths for {} axes", name, given.lengths.size(), axes.size());
  std::vector<FourierAxis> each;
  std::vector<bool> seen(x.rank());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t place = normalize_axis(name, axes[i], x.rank());
    if (seen[place]) raise<ShapeError>("[{}] axis {} is given twice", name, axes[i]);
    seen[place] = true;
    each.push_back({{}, static_cast<std::int64_t>(place), given.norm});
    if (!given.lengths.empty()) each.back().length = given.lengths[i];
  }
  return each;
}

std::vector<FourierAxis> some_axes(std::string_view name, const Tensor& x, const FourierAxes& given) {
  std::vector<FourierAxis> each = each_axis(name, x, given);
  if (each.empty()) raise<ShapeError>("[{}] there is no axis to transform", name);
  return each;
}

}  // namespace

ComplexTensor fft(const ComplexTensor& x, const FourierAxis& along) {
  const OperationScope scope("fft", x.real, x.imaginary);
  return complex_transform("fft", x, along, false);
}

ComplexTensor ifft(const ComplexTensor& x, const FourierAxis& along) {
  const OperationScope scope("ifft", x.real, x.imaginary);
  return complex_transform("ifft", x, along, true);
}

ComplexTensor rfft(const Tensor& x, const FourierAxis& along) {
  const OperationScope scope("rfft", x);
  const std::int64_t length = length_of("rfft", x, along);
  const std::int64_t axis = checked_axis("rfft", x, along, length);
  const Tensor narrow = floating("rfft", x);
  const Tensor rows = resized(moveaxis(widened(narrow), axis, -1), -1, length);
  return rounded(parts_of(scaled(rows, {Kind::real_to_complex, false, length}, along.norm), axis), narrow.dtype());
}

Tensor irfft(const ComplexTensor& x, const FourierAxis& along) {
  const OperationScope scope("irfft", x.real, x.imaginary);
  const CheckedSize spectrum = length_of("irfft", x.real, {{}, along.axis});
  const std::int64_t length =
      along.length ? *along.length : (2 * (spectrum - 1)).get("irfft", "the axis {}", along.axis);
  const std::int64_t axis = checked_axis("irfft", x.real, along, length);
  const Operand operand = operand_of("irfft", x);
  const Tensor pairs = resized(pairs_of(operand.wide, axis), -2, length / 2 + 1);
  return cast(moveaxis(scaled(pairs, {Kind::complex_to_real, true, length}, along.norm), -1, axis), operand.dtype);
}

ComplexTensor fftn(const ComplexTensor& x, const FourierAxes& axes) {
  const OperationScope scope("fftn", x.real, x.imaginary);
  Operand operand = operand_of("fftn", x);
  for (const FourierAxis& along : each_axis("fftn", x.real, axes)) operand.wide = fft(operand.wide, along);
  return rounded(operand.wide, operand.dtype);
}

ComplexTensor ifftn(const ComplexTensor& x, const FourierAxes& axes) {
  const OperationScope scope("ifftn", x.real, x.imaginary);
  Operand operand = operand_of("ifftn", x);
  for (const FourierAxis& along : each_axis("ifftn", x.real, axes)) operand.wide = ifft(operand.wide, along);
  return rounded(operand.wide, operand.dtype);
}

ComplexTensor rfftn(const Tensor& x, const FourierAxes& axes) {
  const OperationScope scope("rfftn", x);
  std::vector<FourierAxis> each = some_axes("rfftn", x, axes);
  const Tensor narrow = floating("rfftn", x);
  ComplexTensor result = rfft(widened(narrow), each.back());
  each.pop_back();
  for (const FourierAxis& along : each) result = fft(result, along);
  return rounded(result, narrow.dtype());
}

Tensor irfftn(const ComplexTensor& x, const FourierAxes& axes) {
  const OperationScope scope("irfftn", x.real, x.imaginary);
  std::vector<FourierAxis> each = some_axes("irfftn", x.real, axes);
  const FourierAxis last = each.back();
  each.pop_back();
  Operand operand = operand_of("irfftn", x);
  for (const FourierAxis& along : each) operand.wide = ifft(operand.wide, along);
  return cast(irfft(operand.wide, last), operand.dtype);
}

}  // namespace tutti
