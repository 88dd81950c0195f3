// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN: what it is told, what is kept, and what happens when it cannot do one.
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace tutti::testing {
namespace {

constexpr Device kDevice = cuda(1);

/// Small whole numbers, of which every order of additions gives the same sum.
Array whole_numbers(const Shape& shape, std::int64_t factor, DType dtype = DType::f32) {
  std::vector<double> numbers(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<double>((static_cast<std::int64_t>(i) * factor) % 7 - 3);
  return Array::from(numbers, shape, cpu()).cast(dtype);
}

std::vector<double> values_of(const Array& array) { return array.to(cpu()).cast(DType::f64).to_vector<double>(); }

struct Operands {
  Conv2dGeometry geometry;
  Array input, weight, gradient;

  Operands(const Conv2dGeometry& how, DType dtype, Device device)
      : geometry(how),
        input(whole_numbers({2, 3 * how.groups, 8, 9}, 5, dtype)),
        weight(whole_numbers({4 * how.groups, 3, 3, 2}, 3, dtype)),
        gradient(whole_numbers(conv2d(how, input, weight).shape(), 2, dtype)) {
    for (Array* array : {&input, &weight, &gradient}) *array = array->to(device);
  }
  std::vector<std::vector<double>> all_passes() const {
    return {values_of(conv2d(geometry, input, weight)),
            values_of(conv2d_input_gradient(geometry, gradient, weight, input.shape())),
            values_of(conv2d_weight_gradient(geometry, gradient, input, weight.shape()))};
  }
};

const std::vector<Conv2dGeometry>& geometries() {
  static const std::vector<Conv2dGeometry> all{{},
                                               {.padding = {1, 2}},
                                               {.stride = {2, 3}, .padding = {1, 0}},
                                               {.padding = {2, 1}, .dilation = {2, 3}},
                                               {.padding = {1, 1}, .groups = 2}};
  return all;
}

TEST_CASE("cudnn: convolutions of every geometry are the CPU's, without a kernel of ours") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Conv2dGeometry& geometry : geometries()) {
      RecordingCuda machine({.deferred = true});
      const RenewedBackend backend;
      CHECK(Operands(geometry, dtype, kDevice).all_passes() == Operands(geometry, dtype, cpu()).all_passes());
      for (const std::string& kernel : machine.kernels()) CHECK(kernel.find("multiply") == std::string::npos);
      CHECK(machine.count("cudnnConvolutionForward") == 1);
      CHECK(machine.count("cudnnConvolutionBackwardData") == 1);
      CHECK(machine.count("cudnnConvolutionBackwardFilter") == 1);
    }
}

TEST_CASE("cudnn: a handle by device, and an algorithm by geometry, are asked for once") {
  RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  for (const Device device : {cuda(0), cuda(1)}) {
    const Operands operands({}, DType::f32, device);
    for (int i = 0; i < 3; ++i) operands.all_passes();
  }
  CHECK(machine.count("cudnnCreate") == 2);
  CHECK(machine.count("cudnnGetConvolutionForwardAlgorithm_v7") == 2);
  CHECK(machine.count("cudnnConvolutionForward") == 6);
  Operands({.padding = {1, 1}}, DType::f32, kDevice).all_passes();
  CHECK(machine.count("cudnnGetConvolutionForwardAlgorithm_v7") == 3);
}

TEST_CASE("cudnn: what it cannot do is done by kernels of ours, and not asked for again") {
  RecordingCuda machine({.deferred = true});
  const RenewedBackend backend;
  const Operands operands({}, DType::f32, kDevice);
  const auto kernels = [&] {
    const std::size_t before = machine.kernels().size();
    conv2d({}, operands.input, operands.weight);
    return machine.kernels().size() - before;
  };
  SUBCASE("by its own account") {
    machine.fail_call("cudnnGetConvolutionForwardAlgorithm_v7", 1, cudaErrorNotSupported);
    for (int i = 0; i < 2; ++i) CHECK(kernels() > 0);
    CHECK(machine.count("cudnnGetConvolutionForwardAlgorithm_v7") == 1);
  }
  SUBCASE("as it turns out") {
    machine.fail_call("cudnnConvolutionForward", 1, cudaErrorNotSupported);
    for (int i = 0; i < 2; ++i) CHECK(kernels() > 0);
    CHECK(machine.count("cudnnConvolutionForward") == 1);
  }
  SUBCASE("memory that does not begin where 16 bytes begin") {
    const Array wide = Array::empty({2 * 3 * 8 * 9 + 1}, DType::f32, kDevice);
    const std::size_t before = machine.kernels().size();
    conv2d({}, wide.slice(0, 1, wide.size()).reshape({2, 3, 8, 9}), operands.weight);
    CHECK(machine.kernels().size() > before);
    CHECK(machine.count("cudnnCreate") == 0);
  }
  CHECK_NOTHROW(synchronize(kDevice));
}

TEST_CASE("cudnn: each call fails in turn: the device is named, nothing is lost, and the next time it works") {
  const auto run = [] {
    const Operands operands({.padding = {1, 1}}, DType::f32, kDevice);
    const auto found = operands.all_passes();
    CHECK(found == Operands({.padding = {1, 1}}, DType::f32, cpu()).all_passes());
  };
  std::vector<std::string> calls;
  {
    const RecordingCuda machine;
    const RenewedBackend backend;
    run();
    for (const RecordedCall& call : machine.calls())
      if (call.name.starts_with("cudnn")) calls.push_back(call.name);
  }
  REQUIRE(calls.size() > 20);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto nth =
        static_cast<std::size_t>(std::count(calls.begin(), calls.begin() + static_cast<long>(i) + 1, calls[i]));
    CAPTURE(calls[i]);
    CAPTURE(nth);
    RecordingCuda machine({.deferred = true});
    const RenewedBackend backend;
    machine.fail_call(calls[i], nth, cudaErrorLaunchFailure);
    const std::string expected = "] cuda:1: " + calls[i] + " failed: an error of the recording machine";
    CHECK_THROWS_WITH_AS(run(), doctest::Contains(expected.c_str()), DeviceError);
    CHECK(machine.failed());
    CHECK(backend->pool(kDevice).statistics().in_use == 0);
    CHECK_NOTHROW(run());
    CHECK_NOTHROW(synchronize(kDevice));
  }
}

TEST_CASE("cudnn: threads share a device's handle") {
  const RecordingCuda machine;
  const RenewedBackend backend;
  const auto expected = Operands({}, DType::f32, cpu()).all_passes();
  const Operands operands({}, DType::f32, kDevice);
  std::vector<std::vector<std::vector<double>>> found(3);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : found) threads.emplace_back([&] { mine = operands.all_passes(); });
  }
  for (const auto& each : found) CHECK(each == expected);
  CHECK(machine.count("cudnnCreate") == 1);
}

}  // namespace
}  // namespace tutti::testing
