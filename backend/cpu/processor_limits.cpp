// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/processor_limits.h>

#include <tutti/backend/cpu/packs/native_vector.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

namespace tutti {

namespace {

using Vector = Native<float>;

template <class T> void keep(T& value) { asm volatile("" : "+m"(value) : : "memory"); }

/// Most calls a second of three tries.
template <class Call> double rate(const Call& call) {
  constexpr double kSeconds = 0.1;
  constexpr int kTries = 3;
  using Clock = std::chrono::steady_clock;
  double best = 0.0;
  for (int i = 0; i < kTries; ++i) {
    const auto start = Clock::now();
    std::int64_t calls = 0;
    double seconds = 0.0;
    do {
      call();
      ++calls;
      seconds = std::chrono::duration<double>(Clock::now() - start).count();
    } while (seconds < kSeconds);
    best = std::max(best, static_cast<double>(calls) / seconds);
  }
  return best;
}

/// Independent sums in registers: more than a processor has multiply-adds on their way at a time.
double multiply_adds() {
  constexpr int kSums = 12;
  constexpr int kRounds = 10000;
  Vector factor = Vector{} + 0.999F;
  Vector term = Vector{} + 0.001F;
  keep(factor);
  keep(term);
  Vector sums[kSums] = {};
  const double calls = rate([&] {
    for (int round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
      for (int i = 0; i < kSums; ++i) sums[i] = native_fma(sums[i], factor, term);
    keep(sums);
  });
  return calls * 2.0 * kSums * kRounds * static_cast<double>(kNativeLanes<float>);
}

/// A loop of plain loads and stores, as kernels have it: some C libraries copy small blocks that alias ten times as
/// slowly.
double copies(std::int64_t bytes) {
  const std::size_t count = static_cast<std::size_t>(bytes) / 2 / sizeof(Vector);
  std::vector<Vector> from(count, Vector{} + 1.0F);
  std::vector<Vector> to(count, Vector{} + 2.0F);
  // So many at a time that the clock is no part of it.
  const std::int64_t at_a_time = std::max<std::int64_t>(1, (std::int64_t{1} << 18) / bytes);
  const double calls = rate([&] {
    for (std::int64_t n = 0; n < at_a_time; ++n) {
      const Vector* read = from.data();
      Vector* write = to.data();
      asm volatile("" : "+r"(read), "+r"(write) : : "memory");
      for (std::size_t i = 0; i < count; ++i) {
        write[i] = read[i];
        asm volatile("" : : : "memory");  // so that it stays a loop
      }
    }
    asm volatile("" : : "r"(to.data()) : "memory");
  });
  return calls * static_cast<double>(at_a_time) * static_cast<double>(bytes);
}

}  // namespace

double ProcessorLimits::copy_rate(double bytes) const {
  const auto distance = [bytes](const CopyLimit& limit) {
    return std::abs(std::log2(static_cast<double>(limit.bytes)) - std::log2(std::max(bytes, 1.0)));
  };
  const auto nearest = std::ranges::min_element(copies, {}, distance);
  return nearest == copies.end() ? 0.0 : nearest->bytes_per_second;
}

ProcessorLimits measure_processor_limits() {
  ProcessorLimits limits{.flops = multiply_adds()};
  for (const int power : {15, 18, 21, 24, 28})
    limits.copies.push_back({std::int64_t{1} << power, copies(std::int64_t{1} << power)});
  return limits;
}

}  // namespace tutti
