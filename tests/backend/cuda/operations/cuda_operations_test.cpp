// SPDX-License-Identifier: Apache-2.0
// What every operation does on the host: launches that CUDA takes, on the right device and stream, with memory of its
// own that is given back, whatever fails. What kernels compute is not seen here.
#include <tutti/backend/backend.h>
#include <tutti/backend/custom_kernel.h>
#include <tutti/backend/elementwise/custom_formulas.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/backend/cuda/operations/operation_cases.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>
#include <tutti/tests/backend/cuda/weighted_formula.h>

#include <doctest/doctest.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace tutti::testing {
namespace {

constexpr Device kDevice = kCaseDevice;

TEST_CASE("cuda operations: each launches what CUDA takes, and holds nothing when it is done") {
  for (const OperationCase& each : all_operations()) {
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
void fail_each_call(const OperationCase& operation) {
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
  for (const OperationCase& each : all_operations()) {
    CAPTURE(std::string(each.name));
    CHECK_NOTHROW(fail_each_call(each));
  }
}

TEST_CASE("cuda operations: a kernel of a program gets the compute stream, and one for CPUs alone is refused") {
  const RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  const Array x = Array::empty({3}, DType::f32, kDevice);
  void* given = nullptr;
  const CustomKernel kernel("own", {.cuda = [&](const CustomCall& call, void* stream) {
                              given = stream;
                              CHECK(call.parameters[0] == 2);
                            }});
  run_kernel(kernel.with({2}), {&x, 1}, x.shape(), x.dtype());
  CHECK(given == backend->stream(kDevice).handle());
  const CustomKernel elsewhere("elsewhere", {.cpu = [](const CustomCall&, const CpuThreads&) {}});
  CHECK_THROWS_WITH_AS(run_kernel(elsewhere, {&x, 1}, x.shape(), x.dtype()),
                       "[elsewhere] the kernel has no function for cuda:1: it has one for cpu", DeviceError);
}

TEST_CASE(
    "cuda operations: an elementwise struct of a program is one kernel for each formula, on operands as they lie") {
  RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  struct Operand {  // as elementwise::CudaOperand, which nvcc alone sees
    const float* data;
    std::int64_t step;
  };
  machine.on_kernel("formula_of_elements", [](const KernelLaunch& launch) {
    const auto at = [&]<class T>(std::size_t i, std::type_identity<T>) {
      return *static_cast<T*>(launch.arguments[i]);
    };
    const auto weighted = at(0, std::type_identity<WeightedFormula>());
    const auto count = at(1, std::type_identity<std::int64_t>());
    float* const to = at(2, std::type_identity<float*>());
    const auto a = at(3, std::type_identity<Operand>());
    const auto b = at(4, std::type_identity<Operand>());
    return [=] {
      for (std::int64_t i = 0; i < count; ++i) to[i] = weighted.value(a.data[i * a.step], b.data[i * b.step]);
    };
  });
  const CustomKernel kernel = elementwise::custom_kernel<elementwise::Value>(WeightedFormula{10});
  REQUIRE(backend->runs(kernel, kDevice));
  const Array inputs[] = {Array::from(std::vector<float>{1, 2, 3, 4}, {2, 2}, kDevice),
                          Array::from(std::vector<float>{5}, {1}, kDevice)};
  const Array sum = detail::custom_elementwise(kernel, inputs, DType::f32);
  CHECK(sum.to_vector<float>() == std::vector<float>{51, 52, 53, 54});
  CHECK(machine.kernels().size() == 1);
  for (const DType dtype : {DType::f64, DType::bf16, DType::f16}) {
    const Array strided[] = {Array::empty({3, 4}, dtype, kDevice).transpose(), Array::empty({4, 1}, dtype, kDevice)};
    CHECK(detail::custom_elementwise(kernel, strided, dtype).shape() == Shape{4, 3});
    CHECK_NOTHROW(synchronize(kDevice));
  }
  CHECK(backend->runs(elementwise::custom_kernel<elementwise::GradientRhs>(WeightedFormula{10}), kDevice));
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
