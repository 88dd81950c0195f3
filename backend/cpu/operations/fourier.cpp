// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/operations/fourier_row.h>
#include <tutti/backend/cpu/packs/pack_loops.h>
#include <tutti/backend/cpu/runtime/kept_by_thread.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace tutti {
namespace {

using Complex = FourierRow::Complex;
using TransformKind = FourierTransform::Kind;

/// The thread's for the length that it had last: the roots of unity take as long as a transform.
std::unique_ptr<FourierRow> row_of(std::int64_t length) {
  std::unique_ptr<FourierRow> last = KeptByThread<FourierRow>::take();
  return last != nullptr && last->length() == length ? std::move(last) : std::make_unique<FourierRow>(length);
}

/// Short ones, of a few megabytes at most.
void keep(std::unique_ptr<FourierRow> row) {
  constexpr std::int64_t kMostKept = 1 << 15;
  if (row->length() <= kMostKept) KeptByThread<FourierRow>::keep(std::move(row));
}

/// `sign` -1: an inverse is the conjugate of what the conjugates give.
template <class T> void read(const FourierTransform& transform, double sign, const T* from, std::span<Complex> row) {
  const std::size_t length = row.size();
  if (transform.kind == TransformKind::real_to_complex) {
    std::copy_n(from, length, row.begin());
    return;
  }
  const std::size_t given = transform.kind == TransformKind::complex ? length : length / 2 + 1;
  for (std::size_t i = 0; i < given; ++i) row[i] = {from[2 * i], sign * from[2 * i + 1]};
  for (std::size_t i = given; i < length; ++i) row[i] = std::conj(row[length - i]);
}

template <class T> void write(const FourierTransform& transform, double sign, std::span<const Complex> row, T* to) {
  const std::size_t length = row.size();
  if (transform.kind == TransformKind::complex_to_real) {
    for (std::size_t i = 0; i < length; ++i) to[i] = static_cast<T>(row[i].real());
    return;
  }
  const std::size_t wanted = transform.kind == TransformKind::complex ? length : length / 2 + 1;
  for (std::size_t i = 0; i < wanted; ++i) {
    to[2 * i] = static_cast<T>(row[i].real());
    to[2 * i + 1] = static_cast<T>(sign * row[i].imag());
  }
}

template <class T> void transform_rows(const FourierTransform& transform, const Array& from, const Array& to,
                                       std::int64_t begin, std::int64_t end, std::int64_t rows) {
  std::unique_ptr<FourierRow> row = row_of(transform.length);
  const double sign = transform.inverse ? -1.0 : 1.0;
  for (std::int64_t i = begin; i < end; ++i) {
    read(transform, sign, from.data<T>() + i * (from.size() / rows), row->input());
    write(transform, sign, row->run(), to.data<T>() + i * (to.size() / rows));
  }
  keep(std::move(row));
}

}  // namespace

void CpuBackend::fourier(const FourierTransform& transform, const Array& input, const Array& output) {
  stream(output.device())
      .launch(
          "fourier",
          [transform, &pool = threads(output.device())](const Array& from, const Array& to) {
            const bool real = transform.kind == TransformKind::complex_to_real;
            const std::int64_t numbers =
                transform.kind == TransformKind::complex ? transform.length : transform.length / 2 + 1;
            const std::int64_t rows = to.size() / (real ? transform.length : 2 * numbers);
            const std::int64_t grain = std::max<std::int64_t>(1, 4096 / transform.length);
            visit_floating(to.dtype(), [&]<class T>(std::type_identity<T>) {
              pool.parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
                transform_rows<T>(transform, from, to, begin, end, rows);
              });
            });
          },
          input, output);
}

}  // namespace tutti
