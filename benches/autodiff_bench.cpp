// SPDX-License-Identifier: Apache-2.0
// What recording and back-propagating an operation costs, on tensors so small that arithmetic does not count.
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/operations.h>

#include <benchmark/benchmark.h>

#include <vector>

namespace {

using namespace tutti;

Tensor square_matrix(bool requires_grad) {
  return Tensor(Array::from(std::vector<float>(64, 0.125F), {8, 8}, cpu(0)), requires_grad);
}

template <class Operation> void forward(benchmark::State& state, Operation operation, bool recorded) {
  const Tensor a = square_matrix(recorded);
  const Tensor b = square_matrix(recorded);
  for (auto _ : state) benchmark::DoNotOptimize(operation(a, b));
}

constexpr int kChain = 100;

template <class Operation> void chain(benchmark::State& state, Operation operation) {
  Tensor a = square_matrix(true);
  const Tensor b = square_matrix(false);
  const Tensor seed = square_matrix(false);
  for (auto _ : state) {
    Tensor y = a;
    for (int i = 0; i < kChain; ++i) y = operation(y, b);
    backward(y, {.gradient = seed});
    a.zero_grad();
  }
  state.counters["per_op"] = benchmark::Counter(static_cast<double>(state.iterations()) * kChain,
                                                benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

const auto kAdd = [](const Tensor& a, const Tensor& b) { return a + b; };
const auto kMultiply = [](const Tensor& a, const Tensor& b) { return a * b; };
const auto kRelu = [](const Tensor& a, const Tensor&) { return relu(a); };
const auto kMatmul = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
const auto kLiteral = [](const Tensor& a, const Tensor&) { return a * 2.0; };

BENCHMARK_CAPTURE(forward, add, kAdd, false);
BENCHMARK_CAPTURE(forward, multiply, kMultiply, false);
BENCHMARK_CAPTURE(forward, relu, kRelu, false);
BENCHMARK_CAPTURE(forward, matmul, kMatmul, false);
BENCHMARK_CAPTURE(forward, add_recorded, kAdd, true);
BENCHMARK_CAPTURE(forward, multiply_recorded, kMultiply, true);
BENCHMARK_CAPTURE(forward, relu_recorded, kRelu, true);
BENCHMARK_CAPTURE(forward, matmul_recorded, kMatmul, true);
BENCHMARK_CAPTURE(chain, add, kAdd);
BENCHMARK_CAPTURE(chain, multiply, kMultiply);
BENCHMARK_CAPTURE(chain, literal, kLiteral);
BENCHMARK_CAPTURE(chain, relu, kRelu);
BENCHMARK_CAPTURE(chain, matmul, kMatmul);

void array_add(benchmark::State& state) {
  const Array a = square_matrix(false).array();
  const Array b = square_matrix(false).array();
  for (auto _ : state) benchmark::DoNotOptimize(apply(elementwise::Add{}, a, b));
}
BENCHMARK(array_add);

/// Of [1000, 1000], and 0 to 999 in another order: what moving, scanning and choosing elements costs.
template <class Operation> void million(benchmark::State& state, Operation operation) {
  Generator random(1);
  const Tensor x = normal({1000, 1000}, random);
  const Tensor order = Tensor(Array::arange(1000, DType::i64, cpu(0))) * 7919 % 1000;
  for (auto _ : state) benchmark::DoNotOptimize(operation(x, order));
}

using T = Tensor;
BENCHMARK_CAPTURE(million, flip_rows, [](const T& x, const T&) { return flip(x, 0); });
BENCHMARK_CAPTURE(million, flip_columns, [](const T& x, const T&) { return flip(x, 1); });
BENCHMARK_CAPTURE(million, cumsum_columns, [](const T& x, const T&) { return cumsum(x, 0); });
BENCHMARK_CAPTURE(million, cummax_columns, [](const T& x, const T&) { return cummax(x, 0).values; });
BENCHMARK_CAPTURE(million, cummax_rows, [](const T& x, const T&) { return cummax(x, 1).values; });
BENCHMARK_CAPTURE(million, repeat_interleave, [](const T& x, const T&) { return repeat_interleave(x, 3, 1); });
BENCHMARK_CAPTURE(million, repeat_by_counts, [](const T& x, const T& n) { return repeat_interleave(x, n % 4, 0); });
BENCHMARK_CAPTURE(million, take_rows, [](const T& x, const T& order) { return take(x, order, 0); });
BENCHMARK_CAPTURE(million, take_columns, [](const T& x, const T& order) { return take(x, order, 1); });

void image_grid_sample(benchmark::State& state) {
  Generator random(1);
  const Tensor images = normal({8, 32, 64, 64}, random);
  const Tensor grid = normal({8, 64, 64, 2}, random);
  for (auto _ : state) benchmark::DoNotOptimize(grid_sample(images, grid));
}
BENCHMARK(image_grid_sample);

}  // namespace
