// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/registry.h>

#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/devices/recording_backend.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

struct Recording {
  RecordingBackend& backend;
  Device device;
};

/// Registered once: kinds stay for the life of the process.
Recording recording() {
  static RecordingBackend* backend = new RecordingBackend;
  static const DeviceKind kind = register_backend("recording", std::unique_ptr<Backend>(backend));
  backend->calls.clear();
  return {*backend, {kind, 1}};
}

using Calls = std::vector<std::string>;

TEST_CASE("devices have names, and names devices") {
  CHECK(to_string(cpu(3)) == "cpu:3");
  CHECK(to_string(cuda(1)) == "cuda:1");
  CHECK(parse_device("cpu") == cpu(0));
  CHECK(parse_device("cpu:12") == cpu(12));
  CHECK(parse_device("cuda:2") == cuda(2));
  CHECK_THROWS_AS(parse_device("cpu:"), DeviceError);
  CHECK_THROWS_AS(parse_device("cpu:1x"), DeviceError);
  CHECK_THROWS_AS(parse_device("cpu:-1"), DeviceError);
  CHECK_THROWS_AS(parse_device("cpu:70000"), DeviceError);
  CHECK_THROWS_WITH_AS(parse_device("gpu:0"), doctest::Contains("there is no kind \"gpu\": known are cpu, cuda"),
                       DeviceError);
}

TEST_CASE("devices have the index that they are asked for, or there are none") {
  static_assert(cpu(65535).index == 65535);
  CHECK(to_string(cuda(65535)) == "cuda:65535");
  CHECK_THROWS_WITH_AS(cpu(100000), "[device] cpu:100000 is no device: its index must be 0 to 65535", DeviceError);
  CHECK_THROWS_WITH_AS(cuda(65536), "[device] cuda:65536 is no device: its index must be 0 to 65535", DeviceError);
  CHECK_THROWS_WITH_AS(cpu(-1), "[device] cpu:-1 is no device: its index must be 0 to 65535", DeviceError);
}

TEST_CASE("a device that does not exist is a clear error") {
  // Whether there is no such device, no driver or no CUDA backend in this build.
  CHECK_THROWS_WITH_AS(Array::zeros({2}, DType::f32, cuda(9999)), doctest::Contains("[device] cuda:"), DeviceError);
  CHECK_THROWS_WITH_AS(Array::zeros({2}, DType::f32, cpu(256)), "[device] cpu:256: CPU devices are numbered 0 to 255",
                       DeviceError);
  CHECK_NOTHROW(backend_for(cpu(255)).check(cpu(255)));
  CHECK_THROWS_AS(backend_for(static_cast<DeviceKind>(200)), DeviceError);
}

TEST_CASE("CPU devices are distinct: each its pool and streams") {
  CHECK(&memory_pool(cpu(10)) != &memory_pool(cpu(11)));
  CHECK(&compute_stream(cpu(10)) != &compute_stream(cpu(11)));
  Backend& backend = backend_for(cpu());
  CHECK(&backend.compute_stream(cpu(10)) != &backend.communication_stream(cpu(10)));
  CHECK(compute_stream(cpu(11)).device() == cpu(11));
  const std::size_t before = memory_pool(cpu(11)).statistics().in_use;
  const Array array = Array::zeros({64}, DType::f32, cpu(11));
  CHECK(memory_pool(cpu(11)).statistics().in_use == before + 256);
  CHECK(memory_pool(cpu(10)).statistics().in_use == 0);
}

TEST_CASE("a backend from outside the tree drives its own kind of device") {
  const auto [backend, device] = recording();
  CHECK(to_string(device) == "recording:1");
  CHECK(parse_device("recording:1") == device);

  const Array a = Array::from<float>({1, 2, 3, 4}, {2, 2}, device);
  const Array b = Array::full({2}, 10, DType::f32, device);
  CHECK(a.storage()->device() == device);
  const Array sum = apply(elementwise::Add{}, a, a);
  const Array leaky = apply(elementwise::LeakyRelu{0.5}, apply(elementwise::Negate{}, sum));
  CHECK(leaky.to_vector<float>() == std::vector<float>{-1, -2, -3, -4});
  CHECK(backend.calls == Calls{"copy_from_host [2, 2]", "fill [2]", "elementwise add", "elementwise negate",
                               "elementwise leaky_relu", "copy_to_host [2, 2]"});
  CHECK_THROWS_WITH_AS(apply(elementwise::Add{}, a, Array::zeros({2, 2}, DType::f32, cpu())),
                       "[add] operands are on different devices: f32 [2, 2] on recording:1 and f32 [2, 2] on cpu:0",
                       DeviceError);
  CHECK_THROWS_AS(Array::zeros({1}, DType::f32, Device{device.kind, 2}), DeviceError);
}

TEST_CASE("arrays travel between kinds of device") {
  const auto [backend, device] = recording();
  const Array here = Array::from<float>({1, 2, 3}, {3}, cpu());
  const Array there = here.to(device);
  CHECK(there.to({device.kind, 0}).to(cpu(1)).to_vector<float>() == std::vector<float>{1, 2, 3});
}

TEST_CASE("matmul hands transposed and row-sliced views over as they are, and copies nothing else") {
  const auto [backend, device] = recording();
  const auto make = [device = device](const Shape& shape) { return Array::zeros(shape, DType::f32, device); };
  const auto last = [&backend = backend] { return backend.calls.back(); };

  matmul(make({2, 3}), make({3, 4}));
  CHECK(last() == "matmul [3, 1][4, 1][2, 4]");
  matmul(make({3, 2}).transpose(), make({4, 3}).transpose());
  CHECK(last() == "matmul [1, 2][1, 3][2, 4]");
  matmul(make({2, 5}).slice(1, 1, 4), make({3, 4}));
  CHECK(last() == "matmul [5, 1][4, 1][2, 4]");
  matmul(make({5, 2, 3}), make({3, 4}));  // a batch against one matrix is one tall matrix
  CHECK(last() == "matmul [3, 1][4, 1][10, 4]");
  matmul(make({5, 2, 3}).transpose(0, 1), make({3, 4}));
  CHECK(last() == "matmul [3, 6, 1][0, 4, 1][2, 5, 4]");
  matmul(make({2, 3}), make({5, 1, 3, 4}));
  CHECK(last() == "matmul [0, 0, 3, 1][12, 12, 4, 1][5, 1, 2, 4]");
  matmul(make({3, 1}).transpose(), make({3, 1}));  // length-1 axes take the stride that fits
  CHECK(last() == "matmul [3, 1][1, 1][1, 1]");
  CHECK_THROWS_WITH_AS(matmul(make({3}).broadcast_to({2, 3}), make({3, 4})),
                       "[copy] the recording device does not do that", Error);
}

TEST_CASE("names of kinds are taken once") {
  recording();
  CHECK_THROWS_WITH_AS(register_backend("recording", std::make_unique<RecordingBackend>()),
                       "[device] kind \"recording\" is registered already", DeviceError);
  CHECK_THROWS_AS(register_backend("cpu", std::make_unique<RecordingBackend>()), DeviceError);
  CHECK_THROWS_AS(register_backend("a:b", std::make_unique<RecordingBackend>()), DeviceError);
  CHECK_THROWS_AS(register_backend("", std::make_unique<RecordingBackend>()), DeviceError);
  CHECK_THROWS_AS(register_backend("null", nullptr), DeviceError);
  CHECK(kind_name(static_cast<DeviceKind>(250)) == "unregistered");
}

/// Outlives every other static, as an embedder's might: released after the workers were joined.
Array kept_until_exit;

TEST_CASE("an array in a static variable may outlive main") {
  kept_until_exit =
      apply(elementwise::Add{}, Array::zeros({8}, DType::f32, cpu()), Array::zeros({8}, DType::f32, cpu()));
  CHECK(kept_until_exit.defined());
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
