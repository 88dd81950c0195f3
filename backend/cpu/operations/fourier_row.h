// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

/// Transforms one row after the other, forwards and in double, so that errors stay far below f32's. Eigen's FFT takes
/// time in proportion to the prime factors of a length: where one is large, the transform is a convolution of a length
/// that is a power of two (Bluestein, "A linear filtering approach to the computation of discrete Fourier transform",
/// 1970). One thread.
class FourierRow {
 public:
  using Complex = std::complex<double>;

  explicit FourierRow(std::int64_t length);
  ~FourierRow();
  FourierRow(const FourierRow&) = delete;
  FourierRow& operator=(const FourierRow&) = delete;

  std::int64_t length() const { return length_; }
  std::span<Complex> input() { return input_; }  ///< must be written before every run
  std::span<const Complex> run();                ///< valid until the next call

 private:
  struct Library;
  void convolve();

  std::int64_t length_;
  std::unique_ptr<Library> library_;
  std::vector<Complex> input_;
  std::vector<Complex> output_;
  // Data of a convolution alone:
  std::vector<Complex> chirp_;   // exp(-i pi j^2 / length)
  std::vector<Complex> kernel_;  // the transform of its conjugate, divided by the length of the convolution
  std::vector<Complex> padded_;
  std::vector<Complex> spectrum_;
};

}  // namespace tutti
