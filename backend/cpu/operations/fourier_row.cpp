// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/operations/fourier_row.h>

#include <unsupported/Eigen/FFT>

#include <algorithm>
#include <bit>
#include <numbers>

namespace tutti {
namespace {

constexpr std::int64_t kMostFactor =
    61;  // a larger prime costs more than three transforms of two to four times the length

std::int64_t largest_prime_factor(std::int64_t length) {
  std::int64_t largest = 1;
  for (std::int64_t factor = 2; factor * factor <= length; ++factor)
    for (; length % factor == 0; length /= factor) largest = factor;
  return std::max(largest, length);
}

}  // namespace

struct FourierRow::Library {
  Eigen::FFT<double> fft;

  void transform(std::vector<Complex>& to, const std::vector<Complex>& from) {
    if (from.size() == 1)  // Eigen 3.4 writes to memory that it has not
      to = from;
    else
      fft.fwd(to.data(), from.data(), static_cast<Eigen::Index>(from.size()));
  }
};

FourierRow::FourierRow(std::int64_t length)
    : length_(length),
      library_(std::make_unique<Library>()),
      input_(static_cast<std::size_t>(length)),
      output_(static_cast<std::size_t>(length)) {
  if (largest_prime_factor(length) <= kMostFactor) return;
  const std::size_t points = std::bit_ceil(static_cast<std::size_t>(2 * length - 1));
  padded_.resize(points);
  spectrum_.resize(points);
  kernel_.resize(points);
  for (std::int64_t j = 0; j < length; ++j) {
    const auto turns = static_cast<double>(j * j % (2 * length)) / static_cast<double>(length);
    chirp_.push_back(std::polar(1.0, -std::numbers::pi * turns));
    const auto place = static_cast<std::size_t>(j);
    padded_[place] = padded_[(points - place) % points] = std::conj(chirp_.back()) / static_cast<double>(points);
  }
  library_->transform(kernel_, padded_);
}

FourierRow::~FourierRow() = default;

std::span<const FourierRow::Complex> FourierRow::run() {
  if (chirp_.empty())
    library_->transform(output_, input_);
  else
    convolve();
  return output_;
}

// jk = (j^2 + k^2 - (k - j)^2) / 2, so that the transform is chirp (kernel * (chirp x)).
void FourierRow::convolve() {
  const std::size_t length = input_.size();
  for (std::size_t j = 0; j < length; ++j) padded_[j] = input_[j] * chirp_[j];
  std::fill(padded_.begin() + static_cast<std::ptrdiff_t>(length), padded_.end(), Complex());
  library_->transform(spectrum_, padded_);
  for (std::size_t j = 0; j < padded_.size(); ++j) padded_[j] = std::conj(spectrum_[j] * kernel_[j]);
  library_->transform(spectrum_, padded_);
  for (std::size_t k = 0; k < length; ++k) output_[k] = std::conj(spectrum_[k]) * chirp_[k];
}

}  // namespace tutti
