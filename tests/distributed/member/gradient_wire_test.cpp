// SPDX-License-Identifier: Apache-2.0
// Gradients that travel in 16 bits: what arrives, exactly, on every device.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/numbers/short_float.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/random.h>
#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/compression/matrices.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <thread>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// Two parameters of f32, whose gradients a test sets.
struct Vectors : Module {
  explicit Vectors(std::int64_t size = 5)
      : left(Array::zeros({size}, DType::f32, test_device()), true),
        right(Array::zeros({3}, DType::f32, test_device()), true) {}
  void visit(MemberVisitor& v) override {
    v.parameter("left", left);
    v.parameter("right", right);
  }
  Tensor left;
  Tensor right;
};

// The definition, for devices of equal weight in a mean.
template <class Wire> Floats expected_mean(const std::vector<Floats>& gradients, float denominator) {
  Floats result(gradients.front().size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    float sum = 0;
    for (const Floats& gradient : gradients) sum += rounded<Wire>(gradient[i]);
    result[i] = rounded<Wire>(sum / denominator);
  }
  return result;
}

/// What `left` receives with these gradients, the same on all devices.
Floats reduced(const SyncOptions& options, const std::vector<Floats>& gradients, const std::vector<double>& weights) {
  GradientSync sync(test_devices(gradients.size()), options);
  auto replicas = sync.replicate(Vectors(static_cast<std::int64_t>(gradients.front().size())));
  std::vector<Floats> results(gradients.size());
  run_devices(gradients.size(), [&](std::size_t d) {
    auto step = sync.step(test_device(d), weights[d]);
    step.backward(with_gradient(replicas[d].left, gradients[d]) + sum(replicas[d].right));
    results[d] = floats_of(replicas[d].left.grad());
  });
  for (const Floats& result : results) CHECK(result == results.front());
  return results.front();
}

}  // namespace

TEST_CASE_TEMPLATE("gradient_wire: each contribution is rounded once, sums are f32, the result is rounded once", Wire,
                   Bf16, F16) {
  const GradientWire wire = std::is_same_v<Wire, Bf16> ? GradientWire::bf16 : GradientWire::f16;
  for (const std::size_t devices : {1, 2, 3}) {
    std::vector<Floats> gradients;
    for (std::size_t d = 0; d < devices; ++d) gradients.push_back(random_floats(20'001, d, 0));
    const Floats want = expected_mean<Wire>(gradients, static_cast<float>(devices));
    const std::vector<double> weights(devices, 1.0);
    for (const std::size_t bucket : {std::size_t{0}, std::size_t{1} << 10, std::size_t{1} << 20})
      CHECK(reduced({.reduction = GradientReduction::mean, .wire = wire, .bucket_bytes = bucket}, gradients, weights) ==
            want);
    CHECK(reduced({.wire = wire}, gradients, weights) == want);  // weights of 1 change nothing
  }
}

TEST_CASE("gradient_wire: f32 sums keep what 16-bit sums would lose") {
  // 256 + 1 is 256 in bf16, which has 8 bits; 256 + 1 + 1 is 258.
  const std::vector<Floats> gradients = {{256}, {1}, {1}};
  CHECK(reduced({.reduction = GradientReduction::sum, .wire = GradientWire::bf16}, gradients, {1, 1, 1}) ==
        Floats{258});
  CHECK(reduced({.reduction = GradientReduction::sum, .wire = GradientWire::f16}, {{2048}, {1}, {1}}, {1, 1, 1}) ==
        Floats{2050});
}

TEST_CASE("gradient_wire: weights neither overflow nor underflow what travels") {
  for (const double weight : {4096.0, 1.0, 1e-6}) {  // 100 x 4096 is above f16's largest number
    CAPTURE(weight);
    const Floats large = reduced({.wire = GradientWire::f16}, {{100, -300}, {100, -300}}, {weight, weight});
    CHECK(large[0] == doctest::Approx(100).epsilon(1e-3));
    CHECK(large[1] == doctest::Approx(-300).epsilon(1e-3));
    const float small = 0x1p-14F;
    CHECK(reduced({.wire = GradientWire::f16}, {{small}, {small}, {small}}, {weight, weight, weight})[0] ==
          doctest::Approx(small).epsilon(1e-3));
  }
  const Floats uneven = reduced({.wire = GradientWire::f16}, {{100, 1}, {20, -3}}, {4096, 1024});
  CHECK(uneven[0] == doctest::Approx(84).epsilon(1e-3));
  CHECK(uneven[1] == doctest::Approx(0.2).epsilon(4e-3));  // of terms that are four times as large
  CHECK(weighted_wire_scale(2, 2 * 4096.0) == 1.0 / 4096);
  CHECK(weighted_wire_scale(2, 6.0) == 0.25);  // the power of two below 1/3
  CHECK(weighted_wire_scale(3, 3.0) == 1.0);
  CHECK(std::isfinite(weighted_wire_scale(1, 1e-300)));
}

TEST_CASE("gradient_wire: what does not fit in f16 arrives as infinity, NaN as NaN, on all devices") {
  GradientSync sync(test_devices(2), {.wire = GradientWire::f16});
  auto replicas = sync.replicate(Vectors(4));
  run_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    step.backward(
        with_gradient(replicas[d].left, d == 0 ? Floats{1e6F, 1, 60000, std::nanf("")} : Floats{1, 1, 60000, 1}));
    const Floats got = floats_of(replicas[d].left.grad());
    CHECK(std::isinf(got[0]));
    CHECK(got[1] == 1.0F);
    CHECK(got[2] == 60000.0F);  // the sum is f32
    CHECK(std::isnan(got[3]));
  });
}

TEST_CASE("gradient_wire: check_finite looks at gradients before they travel") {
  GradientSync sync(test_devices(2), {.wire = GradientWire::f16, .check_finite = true});
  auto replicas = sync.replicate(Vectors(1));
  run_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    step.backward(with_gradient(replicas[d].left, {1e6F}));
    CHECK(std::isinf(floats_of(replicas[d].left.grad())[0]));
  });
}

TEST_CASE("gradient_wire: absent devices, weight 0 and the order of arrival") {
  for (const GradientWire wire : {GradientWire::bf16, GradientWire::f16})
    for (const std::size_t late : {0, 1, 2}) {
      GradientSync sync(test_devices(3), {.wire = wire});
      auto replicas = sync.replicate(Vectors(2));
      run_devices(3, [&](std::size_t d) {
        if (d == late) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        auto step = sync.step(test_device(d), d == 2 ? 0.0 : 1.0 + 2.0 * static_cast<double>(d));
        if (d == 0)
          step.backward(with_gradient(replicas[d].left, {4, 8.03F}));
        else
          step.backward(with_gradient(replicas[d].right, {1, 2, 3}));
        CHECK(floats_of(replicas[d].left.grad())[0] == 1.0F);  // 1 x 4 / (1 + 3 + 0)
        CHECK(floats_of(replicas[d].left.grad())[1] == (wire == GradientWire::bf16 ? 2.0F : 2.0078125F));
        CHECK(floats_of(replicas[d].right.grad()) == Floats{0.75F, 1.5F, 2.25F});
      });
    }
}

TEST_CASE("gradient_wire: f64 is refused by name" * doctest::test_suite("cpu")) {
  for (const GradientWire wire : {GradientWire::bf16, GradientWire::f16}) {
    GradientSync sync(test_devices(2), {.wire = wire});
    CHECK_THROWS_WITH_AS((void)sync.replicate(TwoBranches{}), doctest::Contains("\"left\" is f64"), SyncError);
  }
  LocalCommunicator communicator;
  AllReduceRequest request{.slices = {{Array::zeros({2}, DType::f64, test_device()), true}},
                           .ready = {},
                           .denominator = 1,
                           .wire = GradientWire::bf16};
  CHECK_THROWS_WITH_AS((void)communicator.all_reduce(request), doctest::Contains("bf16"), DTypeError);
}

namespace {

double loss_after_training(GradientWire wire) {
  GradientSync sync(test_devices(2), {.wire = wire});
  Generator initial(5);
  auto replicas = sync.replicate(Linear(8, 3, initial));
  std::vector<double> losses(2);
  run_devices(2, [&](std::size_t d) {
    Sgd optimizer(replicas[d].parameters(), 0.5);
    for (int i = 0; i < 60; ++i) {
      Generator random(static_cast<std::uint64_t>(i), d);
      const Device device = test_device(d);
      const Array x = random.normal({16, 8}, DType::f32, device);
      const Array labels = arg_reduce(ArgReduction::arg_max, x.slice(1, 0, 3), 1);
      optimizer.zero_grad();
      auto step = sync.step(device, 16);
      const Tensor loss = cross_entropy(replicas[d].forward(Tensor(x)), Tensor(labels));
      step.backward(loss);
      optimizer.step();
      losses[d] = loss.item<double>();
    }
  });
  CHECK(floats_of(replicas[0].named_parameters()[0].second) == floats_of(replicas[1].named_parameters()[0].second));
  return (losses[0] + losses[1]) / 2;
}

}  // namespace

TEST_CASE("gradient_wire: training converges as it does in f32") {
  const double native = loss_after_training(GradientWire::native);
  CHECK(native < 0.4);
  CHECK(loss_after_training(GradientWire::bf16) == doctest::Approx(native).epsilon(0.02));
  CHECK(loss_after_training(GradientWire::f16) == doctest::Approx(native).epsilon(0.005));
}
