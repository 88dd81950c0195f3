// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

/// The sum that a transform is, in long double.
std::vector<std::complex<double>> by_definition(const std::vector<double>& real, const std::vector<double>& imaginary) {
  const std::size_t length = real.size();
  std::vector<std::complex<double>> result;
  for (std::size_t k = 0; k < length; ++k) {
    std::complex<long double> sum = 0;
    for (std::size_t j = 0; j < length; ++j)
      sum += std::complex<long double>(real[j], imaginary[j]) *
             std::polar(1.0L, -2 * std::numbers::pi_v<long double> * static_cast<long double>(j * k % length) /
                                  static_cast<long double>(length));
    result.emplace_back(sum);
  }
  return result;
}

/// The largest difference, relative to the largest number.
double error_of(const ComplexTensor& found, const std::vector<std::complex<double>>& expected) {
  const auto real = cast(found.real, DType::f64).to_vector<double>();
  const auto imaginary = cast(found.imaginary, DType::f64).to_vector<double>();
  double worst = 0;
  double largest = 0;
  for (std::size_t k = 0; k < expected.size(); ++k) {
    worst = std::max(worst, std::abs(std::complex<double>(real[k], imaginary[k]) - expected[k]));
    largest = std::max(largest, std::abs(expected[k]));
  }
  return worst / largest;
}

TEST_CASE("fft: lengths of any kind against the definition, primes too") {
  const double narrow_error = test_device().kind == DeviceKind::cuda ? 1e-6 : 1e-7;  // cuFFT computes f32 in f32
  for (const std::int64_t length : {1, 2, 3, 4, 30, 61, 67, 128, 257, 1000, 1009, 2018}) {
    CAPTURE(length);
    const Tensor real = spread({length}, 1);
    const Tensor imaginary = spread({length}, 2);
    const auto expected = by_definition(real.to_vector<double>(), imaginary.to_vector<double>());
    CHECK(error_of(fft({real, imaginary}), expected) < 1e-14);
    const ComplexTensor back = ifft(fft({real, imaginary}));
    CHECK(max(abs(back.real - real)).item<double>() < 1e-14 * static_cast<double>(length + 10));
    CHECK(max(abs(back.imaginary - imaginary)).item<double>() < 1e-14 * static_cast<double>(length + 10));
    const ComplexTensor narrow = fft({cast(real, DType::f32), cast(imaginary, DType::f32)});
    CHECK(narrow.real.dtype() == DType::f32);
    CHECK(error_of(narrow, by_definition(cast(real, DType::f32).cast(DType::f64).to_vector<double>(),
                                         cast(imaginary, DType::f32).cast(DType::f64).to_vector<double>())) <
          narrow_error);
  }
}

TEST_CASE("rfft and irfft: half of fft, and back for odd and even lengths") {
  for (const std::int64_t length : {1, 2, 7, 8, 67}) {
    CAPTURE(length);
    const Tensor x = spread({3, length}, 1);
    const ComplexTensor half = rfft(x);
    const ComplexTensor whole = fft({x});
    CHECK(half.real.shape() == Shape{3, length / 2 + 1});
    CHECK(max(abs(half.real - slice(whole.real, 1, 0, length / 2 + 1))).item<double>() < 1e-13);
    CHECK(max(abs(half.imaginary - slice(whole.imaginary, 1, 0, length / 2 + 1))).item<double>() < 1e-13);
    CHECK(max(abs(irfft(half, {.length = length}) - x)).item<double>() < 1e-13);
  }
  // What no real numbers have is not read.
  const Tensor odd = constant({5, 0, 7}, {3});
  CHECK(irfft({constant({1, 2, 3}, {3}), odd}).to_vector<double>() ==
        irfft({constant({1, 2, 3}, {3}), constant({0, 0, 0}, {3})}).to_vector<double>());
  const Tensor none = constant({std::numeric_limits<double>::quiet_NaN(), 0, 0}, {3});
  CHECK(std::isfinite(sum(irfft({constant({1, 2, 3}, {3}), none})).item<double>()));
}

TEST_CASE("fft: NaN reaches every number of its row and no other") {
  const Tensor x = constant({1, 2, std::numeric_limits<double>::quiet_NaN(), 4, 5, 6, 7, 8}, {2, 4});
  const auto real = fft({x}).real.to_vector<double>();
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::isnan(real[i]));
  for (std::size_t i = 4; i < 8; ++i) CHECK(std::isfinite(real[i]));
}

TEST_CASE("fft: bf16 and f16 are computed in f32 and rounded once; integers give f32") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor x = cast(spread({2, 12}, 1), dtype);
    const ComplexTensor found = rfft(x);
    const ComplexTensor wide = rfft(cast(x, DType::f32));
    CHECK(found.real.dtype() == dtype);
    CHECK(cast(found.real, DType::f32).to_vector<float>() ==
          cast(cast(wide.real, dtype), DType::f32).to_vector<float>());
  }
  CHECK(rfft(index({1, 2, 3, 4}, {4})).real.dtype() == DType::f32);
}

TEST_CASE("fft: bf16 and f16 sums are scaled before they are rounded, along all axes") {
  const TensorOptions half{.dtype = DType::f16, .device = test_device()};
  const Tensor x = full({1024}, 100, half);  // a sum of 102 400, and f16 ends at 65 504
  CHECK(ifft({x}).real.dtype() == DType::f16);
  CHECK(slice(ifft({x}).real, 0, 0, 1).item<double>() == 100);
  CHECK(slice(rfft(x, {.norm = FourierNorm::ortho}).real, 0, 0, 1).item<double>() == 3200);
  CHECK(slice(irfft({x}), 0, 0, 1).item<double>() == 100);
  const Tensor square = full({32, 32}, 3000, half);  // 96 000 along each axis
  const FourierAxes forward{.norm = FourierNorm::forward};
  CHECK(max(fftn({square}, forward).real).item<double>() == 3000);
  CHECK(max(rfftn(square, forward).real).item<double>() == 3000);
  CHECK(max(ifftn({square}).real).item<double>() == 3000);
  CHECK(max(irfftn({square})).item<double>() == 3000);
  CHECK(irfftn({square}).dtype() == DType::f16);
}

TEST_CASE("fft: a captured step has transforms and their gradients") {
  const Tensor x = spread({2, 6}, 1);
  Capture capture(test_device());
  const CaptureScope scope(capture);
  CHECK_NOTHROW(grad(sum(square(irfft(rfft(x)))), {x}));
}

TEST_CASE("fft: derivatives of the power spectrum, along any axis") {
  const auto power = [](const ComplexTensor& y) { return square(y.real) + square(y.imaginary); };
  for (const std::int64_t axis : {0, 1}) {
    check_gradients(
        [&](const Inputs& in) {
          return power(fft({in[0], in[1]}, {.axis = axis}));
        },
        {spread({3, 4}, 1), spread({3, 4}, 2)});
    check_gradients([&](const Inputs& in) { return power(rfft(in[0], {.axis = axis})); }, {spread({3, 4}, 1)});
    check_gradients(
        [&](const Inputs& in) {
          return square(irfft({in[0], in[1]}, {.axis = axis}));
        },
        {spread({3, 4}, 1), spread({3, 4}, 2)});
  }
}

TEST_CASE("fft: what cannot be is refused by name") {
  const Tensor x = spread({2, 3}, 1);
  CHECK_THROWS_WITH_AS(fft({x}, {.axis = 2}), doctest::Contains("[fft]"), ShapeError);
  CHECK_THROWS_WITH_AS(fft({x}, {.length = 0}), doctest::Contains("[fft] 0 points along axis -1"), ShapeError);
  CHECK_THROWS_WITH_AS(rfft(spread({2, 0}, 1)), doctest::Contains("[rfft] 0 points"), ShapeError);
  CHECK_THROWS_WITH_AS(irfft({spread({2, 1}, 1)}), doctest::Contains("[irfft] 0 points"), ShapeError);
  CHECK_THROWS_WITH_AS(rfft(x, {.length = std::int64_t{1} << 40}), doctest::Contains("can be transformed"), ShapeError);
  CHECK_THROWS_WITH_AS(ifft({x, spread({3}, 1)}),
                       doctest::Contains("[ifft] the real part is [2, 3], the imaginary [3]"), ShapeError);
  CHECK_THROWS_WITH_AS(fftn({x}, {.lengths = {2}, .axes = {0, 1}}), doctest::Contains("[fftn] 1 lengths for 2 axes"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(fftn({x}, {.axes = {0, -2}}), doctest::Contains("axis -2 is given twice"), ShapeError);
  CHECK_THROWS_WITH_AS(rfftn(constant({1}, {})), doctest::Contains("there is no axis"), ShapeError);
}

}  // namespace
}  // namespace tutti
