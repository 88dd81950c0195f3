// SPDX-License-Identifier: Apache-2.0
// What one core of this machine can do at most: multiply-adds of f32 and copies of several sizes. No bench of Tutti's:
// tools/run_benches.py shows the others' figures beside these.
#include <tutti/backend/cpu/packs/native_vector.h>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

namespace {

/// Independent sums in registers: more than a processor has multiply-adds on their way at a time.
void multiply_add(benchmark::State& state) {
  using Vector = tutti::Native<float>;
  constexpr int kSums = 12;
  constexpr int kRounds = 1000;
  Vector sums[kSums] = {};
  Vector factor = Vector{} + 0.999F;
  Vector term = Vector{} + 0.001F;
  benchmark::DoNotOptimize(factor);
  benchmark::DoNotOptimize(term);
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
      for (int i = 0; i < kSums; ++i) sums[i] = tutti::native_fma(sums[i], factor, term);
    for (Vector& sum : sums) benchmark::DoNotOptimize(sum);
  }
  const double flops = 2.0 * kSums * kRounds * static_cast<double>(tutti::kNativeLanes<float>);
  state.counters["FLOP/s"] =
      benchmark::Counter(flops * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

/// Of so many bytes in all: half of them are read, half written. By a loop of plain loads and stores, as kernels have
/// it: some C libraries copy small blocks that alias ten times as slowly.
void copy(benchmark::State& state) {
  using Vector = tutti::Native<float>;
  const auto count = static_cast<std::size_t>(state.range(0)) / 2 / sizeof(Vector);
  std::vector<Vector> from(count, Vector{} + 1.0F);
  std::vector<Vector> to(count, Vector{} + 2.0F);
  for (auto _ : state) {
    const Vector* read = from.data();
    Vector* write = to.data();
    benchmark::DoNotOptimize(read);
    benchmark::DoNotOptimize(write);
    for (std::size_t i = 0; i < count; ++i) {
      Vector value = read[i];
      benchmark::DoNotOptimize(value);  // so that it stays a loop
      write[i] = value;
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
  state.counters["moved"] = static_cast<double>(state.range(0));
}

// The best of three counts.
BENCHMARK(multiply_add)->MinTime(0.1)->Repetitions(3);
BENCHMARK(copy)->MinTime(0.1)->Repetitions(3)->Arg(1 << 15)->Arg(1 << 18)->Arg(1 << 21)->Arg(1 << 24)->Arg(1 << 28);

}  // namespace
