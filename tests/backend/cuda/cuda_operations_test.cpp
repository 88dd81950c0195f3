// SPDX-License-Identifier: Apache-2.0
// What every operation does on the host: launches that CUDA takes, on the right device and stream, with memory of its
// own that is given back, whatever fails. What kernels compute is not seen here.
#include <tutti/backend/backend.h>
#include <tutti/backend/error.h>
#include <tutti/backend/linear_algebra.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/backend/cuda/pool_of_pool.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>

#include <doctest/doctest.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace tutti::testing {
namespace {

constexpr Device kDevice = cuda(1);

Array floats(const Shape& shape) { return Array::empty(shape, DType::f32, kDevice); }
Array indices(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t length : shape) count *= length;
  return Array::from(std::vector<std::int64_t>(static_cast<std::size_t>(count), 0), shape, kDevice);
}

struct Case {
  const char* name;
  std::function<void()> run;
};

const std::vector<Case>& elementwise_cases() {
  static const std::vector<Case> cases{
      {"fill",
       [] {
         Array::full({3, 5}, 2, DType::i64, kDevice);
       }},
      {"zeros", [] { Array::zeros({1000}, DType::f32, kDevice); }},
      {"copy",
       [] {
         floats({3, 5, 7}).permute({2, 0, 1}).contiguous();
       }},
      {"transpose",
       [] {
         floats({100, 70}).transpose().contiguous();
       }},
      {"cast", [] { floats({10}).cast(DType::i32); }},
      {"unary",
       [] {
         apply(elementwise::Gelu{}, floats({3, 1001}));
       }},
      {"binary",
       [] {
         apply(elementwise::Add{}, floats({3, 1, 5}), floats({4, 5}));
       }},
      {"where",
       [] {
         where(Array::empty({5}, DType::boolean, kDevice), floats({3, 5}), floats({1}));
       }},
      {"random", [] { Generator(7).normal({33}, DType::f64, kDevice); }},
      {"optimizer_step",
       [] {
         const std::vector<RuleOperands> many(
             200, {floats({9}), floats({18}).slice(0, 0, 18, 2), {floats({9}), floats({9}), Array()}});
         backend_for(kDevice).optimizer_step(AdamStep{.rate = 0.1}, many);
       }},
  };
  return cases;
}

const std::vector<Case>& structured_cases() {
  static const std::vector<Case> cases{
      {"sum",
       [] {
         sum(floats({100, 1000}));
       }},
      {"sum of rows",
       [] {
         reduce(Reduction::sum, floats({100, 1000}), std::vector<std::int64_t>{1});
       }},
      {"max of columns",
       [] {
         reduce(Reduction::max, floats({100, 1000}), std::vector<std::int64_t>{0});
       }},
      {"arg_reduce",
       [] {
         arg_reduce(ArgReduction::arg_max, floats({10, 20}), 1);
       }},
      {"matmul",
       [] {
         matmul(floats({3, 4}), floats({4, 5}));
       }},
      {"batched matmul",
       [] {
         matmul(floats({2, 6, 3, 4}), floats({6, 5, 4}).transpose());
       }},
      {"linear",
       [] {
         linear(floats({3, 4}), floats({5, 4}), floats({5}), LinearActivation::relu);
       }},
      {"linear with an activation that is not the product's",
       [] {
         linear(floats({3, 4}), floats({5, 4}), floats({5}), LinearActivation::gelu);
       }},
      {"factorizations",
       [] {
         for (const auto kind : {Factorization::cholesky, Factorization::qr, Factorization::svd, Factorization::eigh})
           factorize(kind, floats({3, 3}));
       }},
      {"batched solve",
       [] {
         solve(floats({2, 3, 3}), floats({2, 3, 5}));
       }},
      {"softmax",
       [] {
         softmax(SoftmaxKind::log_softmax, floats({10, 20}), 1);
       }},
      {"softmax_gradient",
       [] {
         softmax_gradient(SoftmaxKind::softmax, floats({10, 20}), floats({10, 20}), 0);
       }},
      {"fourier",
       [] {
         fourier({FourierTransform::Kind::complex, true, 20}, floats({3, 20, 2}));
       }},
      {"fourier to real numbers",
       [] {
         fourier({FourierTransform::Kind::complex_to_real, true, 20}, floats({3, 11, 2}));
       }},
      {"gather",
       [] {
         gather(floats({10, 20}), 1, indices({10, 3}));
       }},
      {"scatter_add",
       [] {
         scatter_add({10, 20}, floats({10, 3}), 1, indices({10, 3}));
       }},
      {"long scatter_add", [] { scatter_add({100000}, floats({50000}), 0, indices({50000})); }},
      {"scatter",
       [] {
         scatter(Scatter::max, floats({10, 20}), 1, indices({10, 3}), floats({10, 3}));
       }},
      {"long scatter", [] { scatter(Scatter::set, floats({100000}), 0, indices({50000}), floats({50000})); }},
      {"conv2d",
       [] {
         conv2d({}, floats({2, 3, 8, 8}), floats({4, 3, 3, 3}));
       }},
      {"depthwise conv2d",
       [] {
         conv2d({.groups = 3}, floats({2, 3, 8, 8}), floats({3, 1, 3, 3}));
       }},
      {"conv2d_input_gradient",
       [] {
         conv2d_input_gradient({}, floats({2, 4, 6, 6}), floats({4, 3, 3, 3}), {2, 3, 8, 8});
       }},
      {"conv2d_weight_gradient",
       [] {
         conv2d_weight_gradient({}, floats({2, 4, 6, 6}), floats({2, 3, 8, 8}), {4, 3, 3, 3});
       }},
      {"max_pool2d",
       [] {
         max_pool2d({}, floats({2, 3, 8, 8}));
       }},
      {"max_pool2d_gradient",
       [] {
         max_pool2d_gradient({}, floats({2, 3, 4, 4}), indices({2, 3, 4, 4}), {2, 3, 8, 8});
       }},
      {"avg_pool2d",
       [] {
         avg_pool2d({}, floats({2, 3, 8, 8}));
       }},
      {"avg_pool2d_gradient",
       [] {
         avg_pool2d_gradient({}, floats({2, 3, 4, 4}), {2, 3, 8, 8});
       }},
  };
  return cases;
}

Array halves(const Shape& shape) { return Array::empty(shape, DType::bf16, kDevice); }

/// Widened, computed and narrowed.
const std::vector<Case>& narrow_cases() {
  static const std::vector<Case> cases{
      {"bf16 fill and where",
       [] {
         where(Array::empty({5}, DType::boolean, kDevice), halves({3, 5}), Array::full({}, 1, DType::bf16, kDevice));
       }},
      {"bf16 transpose",
       [] {
         halves({100, 70}).transpose().contiguous();
       }},
      {"f16 to i8", [] { Array::empty({10}, DType::f16, kDevice).cast(DType::i8); }},
      {"bf16 add",
       [] {
         apply(elementwise::Add{}, halves({3, 1, 5}), halves({4, 5}));
       }},
      {"u8 less",
       [] {
         const Array x = Array::empty({33}, DType::u8, kDevice);
         apply(elementwise::Less{}, x, x);
       }},
      {"bf16 sum",
       [] {
         sum(halves({100, 10}));
       }},
      {"bf16 matmul",
       [] {
         matmul(halves({3, 4}), halves({4, 5}));
       }},
      {"bf16 gather",
       [] {
         gather(halves({10, 20}), 1, indices({10, 3}));
       }},
      {"bf16 scatter_add in place",
       [] {
         backend_for(kDevice).scatter(Scatter::add, halves({10, 3}), 1, indices({10, 3}), halves({10, 20}));
       }},
  };
  return cases;
}

std::vector<Case> all_cases() {
  std::vector<Case> all = elementwise_cases();
  all.insert(all.end(), structured_cases().begin(), structured_cases().end());
  all.insert(all.end(), narrow_cases().begin(), narrow_cases().end());
  return all;
}

TEST_CASE("cuda operations: each launches what CUDA takes, and holds nothing when it is done") {
  for (const Case& each : all_cases()) {
    CAPTURE(std::string(each.name));
    RecordingCuda machine({.deferred = true});
    const RenewedBackend backend;
    CHECK_NOTHROW(each.run());
    std::size_t launches = machine.kernels().size();
    for (const char* call : {"cublasLtMatmul", "cudaMemsetAsync", "cufftXtExec", "cudnnConvolutionForward",
                             "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"})
      launches += machine.count(call);
    CHECK(launches > 0);
    CHECK(backend->pool(kDevice).statistics().in_use == 0);
    CHECK_NOTHROW(synchronize(kDevice));
  }
}

/// The error has to name the device; afterwards the operation works.
void fail_each_call(const Case& operation) {
  std::size_t calls = 0;
  {
    const RecordingCuda machine;
    const RenewedBackend backend;
    backend->stream(kDevice);
    const std::size_t before = machine.count();
    operation.run();
    calls = machine.count() - before;
  }
  for (std::size_t nth = 1; nth <= calls; ++nth) {
    CAPTURE(nth);
    RecordingCuda machine({.deferred = true});
    const RenewedBackend backend;
    backend->stream(kDevice);
    machine.fail_call("*", nth, cudaErrorLaunchFailure);
    try {
      operation.run();
    } catch (const DeviceError& error) {
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(text.find("cuda:1") != std::string::npos);
    }
    CHECK(backend->pool(kDevice).statistics().in_use == 0);
    CHECK_NOTHROW(operation.run());
    CHECK_NOTHROW(synchronize(kDevice));
  }
}

TEST_CASE("cuda operations: each call of each operation fails in turn") {
  for (const Case& each : all_cases()) {
    CAPTURE(std::string(each.name));
    CHECK_NOTHROW(fail_each_call(each));
  }
}

TEST_CASE("cuda operations: each can be recorded as a graph, and is queued by each launch of it alone") {
  for (const Case& each : all_cases()) {
    CAPTURE(std::string(each.name));
    RecordingCuda machine({.deferred = true});
    const RenewedBackend backend;
    PoolOfPool scratch(kDevice, backend->pool(kDevice));
    each.run();
    synchronize(kDevice);
    cudaStream_t compute = backend->stream(kDevice).handle();
    const std::size_t outside = backend->pool(kDevice).statistics().in_use;
    const auto graph = backend->make_graph(kDevice, scratch.pool, each.run);
    REQUIRE(graph != nullptr);
    synchronize(kDevice);  // indices are copied from the host: no part of it
    const std::size_t launched = machine.kernels().size();
    graph->launch();
    CHECK(machine.queued(compute) > 0);
    CHECK_NOTHROW(synchronize(kDevice));
    graph->launch();
    CHECK_NOTHROW(synchronize(kDevice));
    CHECK(machine.kernels().size() == launched);
    CHECK(scratch.pool.statistics().in_use == 0);
    CHECK(backend->pool(kDevice).statistics().in_use == outside + scratch.pool.statistics().reserved);
  }
}

TEST_CASE("cuda operations: the steps of many parameters are few launches") {
  const RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  const auto launches_for = [&](std::size_t count) {
    std::vector<RuleOperands> many;
    while (many.size() < count) many.push_back({floats({9}), floats({9}), {floats({9}), floats({9}), Array()}});
    const std::size_t before = machine.kernels().size();
    backend->optimizer_step(AdamWStep{.rate = 0.1}, many);
    return machine.kernels().size() - before;
  };
  CHECK(launches_for(0) == 0);
  CHECK(launches_for(60) == 1);
  CHECK(launches_for(120) == 2);
  CHECK_NOTHROW(synchronize(kDevice));
}

TEST_CASE("cuda operations: products are what they should be") {
  const RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  const auto values = [](const Shape& shape, double first) {
    std::int64_t count = 1;
    for (const std::int64_t length : shape) count *= length;
    std::vector<double> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), first);
    return Array::from(numbers, shape, cpu());
  };
  const auto check = [](const Array& lhs, const Array& rhs, const auto& view) {
    const Array expected = matmul(view(lhs, 0), view(rhs, 1));
    const Array found = matmul(view(lhs.to(kDevice), 0), view(rhs.to(kDevice), 1));
    CHECK(found.shape() == expected.shape());
    CHECK(found.to_vector<double>() == expected.to_vector<double>());
  };
  const auto as_is = [](const Array& x, int) { return x; };
  check(values({3, 4}, 1), values({4, 5}, 2), as_is);
  for (const DType narrow : {DType::bf16, DType::f16}) {
    const Array lhs = values({3, 4}, 1).cast(narrow);
    const Array rhs = values({4, 5}, 2).cast(narrow);
    const Array found = matmul(lhs.to(kDevice), rhs.to(kDevice));
    CHECK(found.dtype() == narrow);
    CHECK(found.to(cpu()).cast(DType::f64).to_vector<double>() ==
          matmul(lhs, rhs).cast(DType::f64).to_vector<double>());
  }
  check(values({1, 4}, 1), values({4, 1}, 2), as_is);
  check(values({2, 3, 4}, 1), values({2, 4, 5}, 2), as_is);
  check(values({2, 1, 3, 4}, 1), values({6, 4, 5}, 2), as_is);
  check(values({4, 3}, 1), values({4, 5}, 2), [](const Array& x, int i) { return i == 0 ? x.transpose() : x; });
  check(values({2, 3, 4}, 1), values({5, 4}, 2), [](const Array& x, int i) { return i == 1 ? x.transpose() : x; });
  check(values({4, 3}, 1), values({5, 4}, 2), [](const Array& x, int) { return x.transpose(); });
}

/// Small whole numbers, of which every order of additions gives the same sum.
Array whole_numbers(const Shape& shape, std::int64_t factor) {
  std::vector<float> numbers(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>((static_cast<std::int64_t>(i) * factor) % 7 - 3);
  return Array::from(numbers, shape, cpu());
}

TEST_CASE("cuda operations: bias and relu are part of a linear product of f32") {
  RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  const Array x = whole_numbers({3, 4}, 5);
  const Array weight = whole_numbers({6, 4}, 3);
  const Array bias = whole_numbers({6}, 2);
  for (const Array& added : {bias, Array()})
    for (const auto activation : {LinearActivation::none, LinearActivation::relu}) {
      const auto expected = linear(x, weight, added, activation).to_vector<float>();
      const Array near = added.defined() ? added.to(kDevice) : added;
      CHECK(linear(x.to(kDevice), weight.to(kDevice), near, activation).to_vector<float>() == expected);
    }
  CHECK(machine.count("cublasLtMatmul") == 4);
  CHECK(machine.kernels().empty());
}

TEST_CASE("cuda operations: what a product cannot do comes after it") {
  RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  const auto kernels = [&](const Array& x, const Array& weight, const Array& bias, LinearActivation activation) {
    const std::size_t before = machine.kernels().size();
    linear(x, weight, bias, activation);
    return machine.kernels().size() - before;
  };
  const auto doubles = [](const Shape& shape) { return Array::empty(shape, DType::f64, kDevice); };
  CHECK(kernels(floats({3, 4}), floats({6, 4}), floats({6}), LinearActivation::gelu) == 1);
  CHECK(kernels(floats({3, 4}), floats({6, 4}), floats({7}).slice(0, 1, 7), LinearActivation::relu) == 2);
  CHECK(kernels(doubles({3, 4}), doubles({6, 4}), doubles({6}), LinearActivation::relu) == 2);
  CHECK(kernels(floats({3, 0}), floats({6, 0}), floats({6}), LinearActivation::relu) == 3);
  machine.fail_call("cublasLtMatmulAlgoGetHeuristic", 1, cudaErrorNotSupported);
  for (int i = 0; i < 2; ++i)  // and that is remembered
    CHECK(kernels(floats({30, 4}), floats({6, 4}), floats({6}), LinearActivation::relu) == 2);
  CHECK(machine.failed());
  CHECK_NOTHROW(synchronize(kDevice));
}

}  // namespace
}  // namespace tutti::testing
