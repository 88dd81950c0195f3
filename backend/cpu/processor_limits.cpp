// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/processor_limits.h>

#include <tutti/backend/cpu/linear_algebra/bf16_tiles.h>
#include <tutti/backend/cpu/linear_algebra/pair_dots.h>
#include <tutti/backend/cpu/packs/native_vector.h>
#include <tutti/backend/cpu/runtime/huge_pages.h>
#include <tutti/backend/processor/instruction_sets.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

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

/// Calls of `step(sum)` a second, times the lanes of a sum: independent sums in registers, more than a processor has
/// multiply-adds on their way at a time.
template <class Step> double lanes_a_second(const Step& step) {
  constexpr int kSums = 12;
  constexpr int kRounds = 10000;
  Vector sums[kSums] = {};
  const double calls = rate([&] {
    for (int round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
      for (int i = 0; i < kSums; ++i) sums[i] = step(sums[i]);
    keep(sums);
  });
  return calls * kSums * kRounds * static_cast<double>(kNativeLanes<float>);
}

double multiply_adds() {
  Vector factor = Vector{} + 0.999F;
  Vector term = Vector{} + 0.001F;
  keep(factor);
  keep(term);
  return 2.0 * lanes_a_second([&](const Vector& sum) { return native_fma(sum, factor, term); });
}

/// Sums of products of pairs, in the processor's instruction.
double pair_dots() {
  constexpr std::int32_t kOnes = 0x3f803f80;  // a pair of ones
  Native<std::int32_t> a = Native<std::int32_t>{} + kOnes;
  Native<std::int32_t> b = a;
  keep(a);
  keep(b);
  return 4.0 * lanes_a_second([&](const Vector& sum) { return ProcessorDot::add(a, b, sum); });
}

#if defined(TUTTI_AVX512) && defined(__x86_64__)
/// The innermost loop of products in tiles, with operands that stay in the first cache.
double tile_dots() {
  constexpr std::int64_t kSide = 2 * bf16_tiles::kTile;
  constexpr std::int64_t kPairs = gemm_blocks::kMostDepth / TileDots::kSteps;
  constexpr std::int64_t kRounds = 100;
  constexpr std::int32_t kOnes = 0x3f803f80;  // a pair of ones
  alignas(64) std::int32_t a[kSide * kPairs];
  alignas(64) std::int32_t b[kPairs * kSide];
  alignas(64) float c[kSide * kSide];
  std::ranges::fill(a, kOnes);
  std::ranges::fill(b, kOnes);
  const bf16_tiles::Tiles in_use;
  const double calls = rate([&] {
    for (std::int64_t i = 0; i < kRounds; ++i)
      bf16_tiles::Tiles::multiply(kPairs, a, kSide, b, kSide, kSide, c, kSide, false);
  });
  return 4.0 * calls * static_cast<double>(kRounds * kSide * kSide * kPairs);
}
#endif

/// Operations a second of the way that products of bf16 take: f32's where they are widened.
double bf16_multiply_adds([[maybe_unused]] Bf16Products way, double of_f32) {
#if defined(TUTTI_AVX512) && defined(__x86_64__)
  if (way == Bf16Products::tiles) return tile_dots();
#endif
  return way == Bf16Products::pairs ? pair_dots() : of_f32;
}

using Vectors = std::unique_ptr<Vector, void (*)(void*)>;

/// So many vectors of a value, on pages as arrays have them.
Vectors filled(std::size_t count, float value) {
  Vectors vectors(static_cast<Vector*>(memory_on_huge_pages(count * sizeof(Vector))), std::free);
  if (vectors == nullptr) throw std::bad_alloc();
  std::uninitialized_fill_n(vectors.get(), count, Vector{} + value);
  return vectors;
}

/// A loop of plain loads and stores, as kernels have it: some C libraries copy small blocks that alias ten times as
/// slowly.
double copies(std::int64_t bytes) {
  const std::size_t count = static_cast<std::size_t>(bytes) / 2 / sizeof(Vector);
  const Vectors from = filled(count, 1.0F);
  const Vectors to = filled(count, 2.0F);
  // So many at a time that the clock is no part of it.
  const std::int64_t at_a_time = std::max<std::int64_t>(1, (std::int64_t{1} << 18) / bytes);
  const double calls = rate([&] {
    for (std::int64_t n = 0; n < at_a_time; ++n) {
      const Vector* read = from.get();
      Vector* write = to.get();
      asm volatile("" : "+r"(read), "+r"(write) : : "memory");
      for (std::size_t i = 0; i < count; ++i) {
        write[i] = read[i];
        asm volatile("" : : : "memory");  // so that it stays a loop
      }
    }
    asm volatile("" : : "r"(to.get()) : "memory");
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
  const Bf16Products way = products_of_bf16();
  ProcessorLimits limits{.flops = multiply_adds(), .bf16_products = name_of(way)};
  limits.bf16_flops = bf16_multiply_adds(way, limits.flops);
  for (const int power : {15, 18, 21, 24, 28})
    limits.copies.push_back({std::int64_t{1} << power, copies(std::int64_t{1} << power)});
  return limits;
}

}  // namespace tutti
