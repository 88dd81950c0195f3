// SPDX-License-Identifier: Apache-2.0
// Kernels of the CPU backend beside peers measured in the same run: plain loops and Eigen.
//   backend_bench --benchmark_filter=matmul
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined operands of its own AVX-512 intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#include <benchmark/benchmark.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace tutti {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Array numbers(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  return Array::from(values, shape, cpu());
}

std::vector<float> plain_numbers(std::int64_t count) { return numbers({count}).to_vector<float>(); }

/// Elements a second, shown as time of one; and bytes that have to be read and written for each, in the operands' own
/// size, whatever caches make of them.
void count_elements(benchmark::State& state, std::int64_t elements, std::int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * elements * bytes);
  state.counters["element"] =
      benchmark::Counter(static_cast<double>(elements) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
void count_flops(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] =
      benchmark::Counter(flops * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

// --- elementwise

template <class Operation> void unary(benchmark::State& state) {
  const Array x = numbers({state.range(0)});
  benchmark::DoNotOptimize(apply(Operation{}, x));  // maps the memory
  for (auto _ : state) benchmark::DoNotOptimize(apply(Operation{}, x));
  synchronize(cpu());
  count_elements(state, state.range(0), 8);
}
template <class Operation> void unary_plain_loop(benchmark::State& state) {
  const std::vector<float> x = plain_numbers(state.range(0));
  std::vector<float> y(x.size());
  for (auto _ : state) {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = Operation{}.value(x[i]);
    benchmark::ClobberMemory();
  }
  count_elements(state, state.range(0), 8);
}
template <class Operation> void binary(benchmark::State& state) {
  const Array x = numbers({state.range(0)});
  for (auto _ : state) benchmark::DoNotOptimize(apply(Operation{}, x, x));
  count_elements(state, state.range(0), 8);
}
template <class Operation> void binary_plain_loop(benchmark::State& state) {
  const std::vector<float> x = plain_numbers(state.range(0));
  std::vector<float> y(x.size());
  for (auto _ : state) {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = Operation{}.value(x[i], x[i]);
    benchmark::ClobberMemory();
  }
  count_elements(state, state.range(0), 8);
}
void add_bias(benchmark::State& state) {
  const Array x = numbers({state.range(0), state.range(1)});
  const Array bias = numbers({state.range(1)});
  for (auto _ : state) benchmark::DoNotOptimize(apply(elementwise::Add{}, x, bias));
  count_elements(state, x.size(), 8);
}
void copy_transposed(benchmark::State& state) {
  const Array x = numbers({state.range(0), state.range(0)}).transpose();
  for (auto _ : state) benchmark::DoNotOptimize(x.copy());
  count_elements(state, x.size(), 8);
}

constexpr int kInCache = 1 << 14;
constexpr int kInMemory = 1 << 24;
BENCHMARK(unary<elementwise::Exp>)->Name("exp")->Arg(kInCache)->Arg(kInMemory);
BENCHMARK(unary_plain_loop<elementwise::Exp>)->Name("exp/plain_loop")->Arg(kInCache);
BENCHMARK(unary<elementwise::Gelu>)->Name("gelu")->Arg(kInCache)->Arg(kInMemory);
BENCHMARK(unary_plain_loop<elementwise::Gelu>)->Name("gelu/plain_loop")->Arg(kInCache);
BENCHMARK(binary<elementwise::Add>)->Name("add")->Arg(kInCache)->Arg(kInMemory);
BENCHMARK(binary_plain_loop<elementwise::Add>)->Name("add/plain_loop")->Arg(kInCache)->Arg(kInMemory);
BENCHMARK(add_bias)->Args({64, 512})->Args({64, 10});
BENCHMARK(copy_transposed)->Arg(512)->Arg(2000);

// --- reductions

void sum_all(benchmark::State& state) {
  const Array x = numbers({state.range(0)});
  for (auto _ : state) benchmark::DoNotOptimize(sum(x));
  count_elements(state, x.size(), 4);
}
void sum_plain_loop(benchmark::State& state) {
  const std::vector<float> x = plain_numbers(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(std::accumulate(x.begin(), x.end(), 0.0F));
  count_elements(state, state.range(0), 4);
}
void sum_eigen(benchmark::State& state) {
  const std::vector<float> x = plain_numbers(state.range(0));
  const Eigen::Map<const Eigen::ArrayXf> map(x.data(), static_cast<Eigen::Index>(x.size()));
  for (auto _ : state) benchmark::DoNotOptimize(map.sum());
  count_elements(state, state.range(0), 4);
}
void sum_rows(benchmark::State& state) {
  const Array x = numbers({state.range(0), state.range(1)});
  const std::int64_t first[] = {0};
  for (auto _ : state) benchmark::DoNotOptimize(sum(x, first));
  count_elements(state, x.size(), 4);
}
void sum_channels(benchmark::State& state) {
  const Array x = numbers({64, state.range(0), 8, 8});
  const std::int64_t axes[] = {0, 2, 3};
  for (auto _ : state) benchmark::DoNotOptimize(sum(x, axes));
  count_elements(state, x.size(), 4);
}
void softmax_last(benchmark::State& state) {
  const Array x = numbers({64, state.range(0)});
  for (auto _ : state) benchmark::DoNotOptimize(softmax(SoftmaxKind::softmax, x, 1));
  count_elements(state, x.size(), 8);
}

BENCHMARK(sum_all)->Name("sum")->Arg(kInCache)->Arg(kInMemory);
BENCHMARK(sum_eigen)->Name("sum/eigen")->Arg(kInCache)->Arg(kInMemory);
BENCHMARK(sum_plain_loop)->Name("sum/plain_loop")->Arg(kInCache);
BENCHMARK(sum_rows)->Args({64, 512})->Args({64, 10});
BENCHMARK(sum_channels)->Arg(16)->Arg(64);
BENCHMARK(softmax_last)->Arg(10)->Arg(1000);

// --- products, M x K x N

void product(benchmark::State& state) {
  const Array a = numbers({state.range(0), state.range(1)});
  const Array b = numbers({state.range(1), state.range(2)});
  benchmark::DoNotOptimize(matmul(a, b));  // maps the memory
  for (auto _ : state) benchmark::DoNotOptimize(matmul(a, b));
  count_flops(state, 2.0 * static_cast<double>(state.range(0) * state.range(1) * state.range(2)));
}
void product_eigen(benchmark::State& state) {
  const Matrix a = Matrix::Random(state.range(0), state.range(1));
  const Matrix b = Matrix::Random(state.range(1), state.range(2));
  Matrix c(state.range(0), state.range(2));
  for (auto _ : state) {
    c.noalias() = a * b;
    benchmark::ClobberMemory();
  }
  count_flops(state, 2.0 * static_cast<double>(state.range(0) * state.range(1) * state.range(2)));
}
void product_transposed(benchmark::State& state) {  // TN: the gradient of a weight; NT: of an input
  const bool left = state.range(0) != 0;
  const Array a = left ? numbers({1024, 256}).transpose() : numbers({256, 1024});
  const Array b = left ? numbers({1024, 1024}) : numbers({1024, 1024}).transpose();
  for (auto _ : state) benchmark::DoNotOptimize(matmul(a, b));
  count_flops(state, 2.0 * 256 * 1024 * 1024);
}

void matmul_shapes(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t n : {8, 16, 32, 64, 128, 256, 512, 1024}) bench->Args({n, n, n});
  bench->Args({64, 784, 512})->Args({256, 1024, 1024})->Args({512, 64, 512})->Args({8192, 384, 1536});
}
BENCHMARK(product)->Name("matmul")->Apply(matmul_shapes);
BENCHMARK(product_eigen)->Name("matmul/eigen")->Apply(matmul_shapes);
BENCHMARK(product_transposed)->Name("matmul/256x1024x1024_TN")->Arg(1);
BENCHMARK(product_transposed)->Name("matmul/256x1024x1024_NT")->Arg(0);

// --- convolutions of [images, c, size, size] with [k, c, 3, 3], padded; arguments: images, c, size, k

struct PaddedConvolution {
  explicit PaddedConvolution(const benchmark::State& state)
      : input(numbers({state.range(0), state.range(1), state.range(2), state.range(2)})),
        weight(numbers({state.range(3), state.range(1), 3, 3})),
        output(numbers({state.range(0), state.range(3), state.range(2), state.range(2)})),
        flops(2.0 * 9 * static_cast<double>(input.size() * state.range(3))) {}

  Conv2dGeometry geometry{.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}};
  Array input;
  Array weight;
  Array output;
  double flops;
};
void convolution(benchmark::State& state) {
  const PaddedConvolution c(state);
  for (auto _ : state) benchmark::DoNotOptimize(conv2d(c.geometry, c.input, c.weight));
  count_flops(state, c.flops);
}
void convolution_input_gradient(benchmark::State& state) {
  const PaddedConvolution c(state);
  for (auto _ : state) benchmark::DoNotOptimize(conv2d_input_gradient(c.geometry, c.output, c.weight, c.input.shape()));
  count_flops(state, c.flops);
}
void convolution_weight_gradient(benchmark::State& state) {
  const PaddedConvolution c(state);
  for (auto _ : state)
    benchmark::DoNotOptimize(conv2d_weight_gradient(c.geometry, c.output, c.input, c.weight.shape()));
  count_flops(state, c.flops);
}
void convolution_shapes(benchmark::internal::Benchmark* bench) {
  bench->Args({64, 16, 8, 32})->Args({64, 64, 8, 64})->Args({64, 32, 28, 64});
  bench->Args({32, 64, 32, 64})->Args({32, 128, 16, 128})->Args({32, 256, 8, 256})->Args({32, 512, 4, 512});
}
BENCHMARK(convolution)->Args({64, 1, 8, 16})->Apply(convolution_shapes);
BENCHMARK(convolution_input_gradient)->Apply(convolution_shapes);
BENCHMARK(convolution_weight_gradient)->Args({64, 1, 8, 16})->Apply(convolution_shapes);

// Of [8, 128, 28, 28] in so many groups of channels: 128 is depthwise.
void grouped_convolution(benchmark::State& state) {
  const std::int64_t groups = state.range(0);
  const Array x = numbers({8, 128, 28, 28});
  const Array weight = numbers({128, 128 / groups, 3, 3});
  const Conv2dGeometry geometry{.padding = {1, 1}, .groups = groups};
  for (auto _ : state) benchmark::DoNotOptimize(conv2d(geometry, x, weight));
  count_flops(state, 2.0 * static_cast<double>(x.size() * 9 * (128 / groups)));
}
BENCHMARK(grouped_convolution)->Arg(1)->Arg(4)->Arg(32)->Arg(128);

void pool(benchmark::State& state) {
  const Array x = numbers({64, 32, 8, 8});
  for (auto _ : state) benchmark::DoNotOptimize(max_pool2d({}, x));
  count_elements(state, x.size(), 5);
}
BENCHMARK(pool)->Name("max_pool2d");

// --- the cost of an operation on 8 x 8 numbers

void dispatch_add(benchmark::State& state) {
  const Array x = numbers({8, 8});
  for (auto _ : state) benchmark::DoNotOptimize(apply(elementwise::Add{}, x, x));
}
void dispatch_multiply(benchmark::State& state) {
  const Array x = numbers({8, 8});
  for (auto _ : state) benchmark::DoNotOptimize(apply(elementwise::Multiply{}, x, x));
}
void dispatch_relu(benchmark::State& state) {
  const Array x = numbers({8, 8});
  for (auto _ : state) benchmark::DoNotOptimize(apply(elementwise::Relu{}, x));
}
void dispatch_matmul(benchmark::State& state) {
  const Array x = numbers({8, 8});
  for (auto _ : state) benchmark::DoNotOptimize(matmul(x, x));
}
BENCHMARK(dispatch_add);
BENCHMARK(dispatch_multiply);
BENCHMARK(dispatch_relu);
BENCHMARK(dispatch_matmul);

// --- optimizer and random numbers

void adamw_step(benchmark::State& state) {
  const Array p = numbers({state.range(0)});
  const Array g = numbers({state.range(0)});
  const Array m = Array::zeros(p.shape(), DType::f32, cpu());
  const Array v = Array::zeros(p.shape(), DType::f32, cpu());
  const RuleOperands operands[] = {{p, g, {m, v, Array()}}};
  for (auto _ : state) backend_for(cpu()).optimizer_step(AdamWStep{.rate = 1e-3}, operands);
  synchronize(cpu());
  count_elements(state, p.size(), 28);
}
void uniform(benchmark::State& state) {
  Generator generator(1);
  for (auto _ : state) benchmark::DoNotOptimize(generator.uniform({state.range(0)}, DType::f32, cpu()));
  count_elements(state, state.range(0), 4);
}
BENCHMARK(adamw_step)->Arg(kInCache)->Arg(1 << 22);
BENCHMARK(uniform)->Arg(kInCache);

}  // namespace
}  // namespace tutti
