// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <algorithm>

namespace tutti {
namespace {

using Kind = FourierTransform::Kind;

/// The shape of one row.
Shape row_of(const FourierTransform& transform, bool output) {
  const bool real = transform.kind == (output ? Kind::complex_to_real : Kind::real_to_complex);
  if (real) return {transform.length};
  return {transform.kind == Kind::complex ? transform.length : transform.length / 2 + 1, 2};
}

/// A copy whose imaginary parts are 0 where those of every real sequence's spectrum are.
Array real_at_the_ends(const Array& spectra, std::int64_t length) {
  const Array copied = spectra.copy();
  const auto axis = static_cast<std::int64_t>(spectra.rank()) - 2;
  const Array imaginary = copied.slice(axis + 1, 1, 2);
  Backend& backend = backend_for(copied.device());
  backend.fill(imaginary.slice(axis, 0, 1), 0);
  if (length % 2 == 0) backend.fill(imaginary.slice(axis, length / 2, length / 2 + 1), 0);
  return copied;
}

}  // namespace

Array fourier(const FourierTransform& transform, const Array& input) {
  checks::require_enumerator("fourier", "FourierTransform::Kind", transform.kind, Kind::complex_to_real);
  checks::require_defined("fourier", input);
  checks::require_floating("fourier", input);
  if (transform.length < 1 || transform.length > kMostPoints)
    raise<ShapeError>("[fourier] {} points: 1 to {} can be transformed", transform.length, kMostPoints);
  const Shape row = row_of(transform, false);
  const Shape shape = input.shape();
  if (shape.size() < row.size() || !std::equal(row.begin(), row.end(), shape.end() - row.size()))
    raise<ShapeError>("[fourier] rows of {} are needed, not {}", to_string(row), to_string(shape));
  if (is_narrow(input)) return narrowed("fourier", fourier(transform, widened(input)), input.dtype());
  Shape to;
  for (std::size_t axis = 0; axis + row.size() < shape.size(); ++axis) to.push_back(shape[axis]);
  for (const std::int64_t length : row_of(transform, true)) to.push_back(length);
  Array result = Array::empty(to, input.dtype(), input.device());
  if (result.size() == 0) return result;
  const bool from_spectrum = transform.kind == Kind::complex_to_real;
  const Array from = from_spectrum ? real_at_the_ends(input, transform.length) : input.contiguous();
  backend_for(input.device()).fourier(transform, from, result);
  return result;
}

}  // namespace tutti
