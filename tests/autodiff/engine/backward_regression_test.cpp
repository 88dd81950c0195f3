// SPDX-License-Identifier: Apache-2.0
// Cases that a review of the first implementation found broken; each failed before its fix.
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/gradcheck.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/test_devices.h>

#include <fmt/format.h>

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

namespace tutti {
namespace {

using Values = std::vector<double>;

const int kGroup = 0;

Tensor leaf(const Values& values) {
  return Tensor(Array::from(values, {static_cast<std::int64_t>(values.size())}, test_device()), true);
}

Tensor attached(const Values& values, std::uint32_t id, const std::string& name) {
  Tensor tensor = leaf(values);
  tensor.gradient_slot().attachment = std::make_shared<const Attachment>(Attachment{{id}, name, &kGroup});
  return tensor;
}

/// Writes down what it hears, between what the operations write.
struct Recorder : GradientObserver {
  explicit Recorder(std::vector<std::string>& log) : log(log) {}
  void on_backward_begin(Device, std::span<const ParameterUse>) override { log.emplace_back("begin"); }
  void on_gradient_final(Device, ParameterId id, GradientRef) override {
    log.push_back("final " + std::to_string(id.value));
  }
  void on_backward_end(Device) override { log.emplace_back("end"); }
  void on_backward_failed(Device, std::exception_ptr) override { log.emplace_back("failed"); }

  std::vector<std::string>& log;
};

TEST_CASE("backward: a gradient is final before older operations run, not after all of them") {
  std::vector<std::string> log;
  Recorder recorder(log);
  const Tensor early = attached({1, 2}, 0, "early");
  const Tensor late = attached({3, 4}, 1, "late");
  const auto logged = [&](const Tensor& x) {
    return custom_function(
        "logged", {x}, [](std::span<const Array> in) { return in[0].copy(); },
        [&](std::span<const Array>, const Array&, const Array& dy) {
          log.emplace_back("ran");
          return std::vector<Array>{dy};
        });
  };
  backward(sum(logged(logged(early)) * late), {.observer = &recorder, .owner = &kGroup});
  CHECK(log == std::vector<std::string>{"begin", "final 1", "ran", "ran", "final 0", "end"});
}

TEST_CASE("backward: a reduction in flight is joined before its gradient is added to") {
  struct Pending : PendingGradients {
    void join() override { ++joins; }
    int joins = 0;
  };
  const auto pending = std::make_shared<Pending>();
  const Tensor p = attached({1, 2}, 0, "p");
  p.gradient_slot().pending = pending;
  const LocalAccumulation scope(&kGroup, 1.0);
  backward(sum(p * 2));
  CHECK(pending->joins == 1);
}

TEST_CASE("backward: a gradient that a user holds does not change when more is added to the slot") {
  const Tensor x = leaf({1, 2});
  backward(sum(x * 2));
  const Tensor held = x.grad();
  backward(sum(x * 3));
  CHECK(held.to_vector<double>() == Values{2, 2});
  CHECK(x.grad().to_vector<double>() == Values{5, 5});
}

TEST_CASE("backward: a root gradient of another dtype is refused by name") {
  const Tensor x = leaf({1, 2});
  const Tensor wrong(Array::from(std::vector<float>{1, 1}, {2}, test_device()));
  CHECK_THROWS_AS(backward(x * x, {.gradient = wrong}), DTypeError);
}

TEST_CASE("backward: create_graph beside an observer is refused, naming both") {
  std::vector<std::string> log;
  Recorder recorder(log);
  const Tensor x = leaf({1});
  const auto run = [&] { backward(x * x, {.create_graph = true, .observer = &recorder, .owner = &kGroup}); };
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("create_graph cannot be combined with an observer"), AutodiffError);
}

TEST_CASE("grad: create_graph gives differentiable gradients under NoGrad too") {
  const Tensor x = leaf({2});
  const Tensor y = x * x * x;
  const NoGrad no_grad;
  const Tensor inputs[] = {x};
  const Tensor first = grad(y, inputs, {.create_graph = true})[0];
  REQUIRE(first.requires_grad());
  CHECK(grad(first, inputs)[0].to_vector<double>() == Values{12});
}

TEST_CASE("grad: may be called inside a custom function's backward") {
  const Tensor x = leaf({2, 3});
  const Tensor y = custom_function(
      "square", {x}, [](std::span<const Array> in) { return (Tensor(in[0]) * Tensor(in[0])).array(); },
      [](std::span<const Array> in, const Array&, const Array& dy) {
        const EnableGrad enable;
        const Tensor inner[] = {Tensor(in[0], true)};
        return std::vector<Array>{(grad(inner[0] * inner[0], inner)[0] * Tensor(dy)).array()};
      });
  backward(sum(y));
  CHECK(x.grad().to_vector<double>() == Values{4, 6});
}

TEST_CASE("backward: a root gradient on another device is an error of devices") {
  const Tensor x = leaf({1, 2});
  const Tensor elsewhere(Array::from(Values{1, 1}, {2}, test_devices(2)[1]));
  const std::string expected = fmt::format("[backward] the root's gradient is on {}, the root on {}",
                                           to_string(elsewhere.device()), to_string(x.device()));
  CHECK_THROWS_WITH_AS(backward(x * x, {.gradient = elsewhere}), expected.c_str(), DeviceError);
}

TEST_CASE("custom_function: what is missing is told when it is called") {
  const Tensor x = leaf({1, 2});
  const CustomForward forward = [](std::span<const Array> in) { return in[0].copy(); };
  const CustomBackward backward = [](std::span<const Array>, const Array&, const Array& dy) {
    return std::vector<Array>{dy};
  };
  CHECK_THROWS_WITH_AS(custom_function("mine", {x}, nullptr, backward),
                       doctest::Contains("[mine] the custom function has no forward"), AutodiffError);
  CHECK_THROWS_WITH_AS(custom_function("mine", {x}, forward, nullptr),
                       doctest::Contains("[mine] the custom function has no backward"), AutodiffError);
  CHECK_THROWS_WITH_AS(custom_function("mine", {x, Tensor()}, forward, backward),
                       doctest::Contains("[mine] input 1 is undefined"), AutodiffError);
  const CustomForward nothing = [](std::span<const Array>) { return Array(); };
  CHECK_THROWS_WITH_AS(custom_function("mine", {x}, nothing, backward),
                       doctest::Contains("[mine] forward returned an undefined array"), AutodiffError);
}

TEST_CASE("custom_function: errors in its functions name it, and its gradients are looked at") {
  const Tensor x = leaf({1, 2});
  const CustomForward forward = [](std::span<const Array> in) { return in[0].copy(); };
  const auto returning = [&](const Array& gradient) {
    return custom_function("mine", {x}, forward, [gradient](std::span<const Array>, const Array&, const Array&) {
      return std::vector<Array>{gradient};
    });
  };
  const CustomForward wrong = [](std::span<const Array> in) {
    return (Tensor(in[0]) + Tensor(Array::zeros({3}, DType::f64, in[0].device()))).array();
  };
  const CustomBackward unused = [](std::span<const Array>, const Array&, const Array& dy) {
    return std::vector<Array>{dy};
  };
  CHECK_THROWS_WITH_AS(custom_function("mine", {x}, wrong, unused), doctest::Contains("[mine] shapes "), ShapeError);
  const Tensor y = custom_function("mine", {x}, forward, [&](std::span<const Array> in, const Array&, const Array&) {
    return std::vector<Array>{wrong(in)};
  });
  CHECK_THROWS_WITH_AS(backward(sum(y)), doctest::Contains("[mine] shapes "), ShapeError);
  const Array elsewhere = Array::zeros({2}, DType::f64, test_devices(2)[1]);
  const std::string devices = fmt::format("[mine] gradient 0 is f64 [2] on {}, its input f64 [2] on {}",
                                          to_string(elsewhere.device()), to_string(x.device()));
  CHECK_THROWS_WITH_AS(backward(sum(returning(elsewhere))), devices.c_str(), AutodiffError);
  CHECK_THROWS_WITH_AS(backward(sum(returning(Array::zeros({2}, DType::f32, test_device())))),
                       doctest::Contains("[mine] gradient 0 is f32 [2]"), AutodiffError);
}

TEST_CASE("custom_function: a result of integers has no gradient") {
  const CustomForward forward = [](std::span<const Array> in) { return in[0].cast(DType::i64); };
  const CustomBackward backward = [](std::span<const Array>, const Array&, const Array&) {
    return std::vector<Array>{Array()};
  };
  CHECK_FALSE(custom_function("rounded", {leaf({1.5})}, forward, backward).requires_grad());
}

TEST_CASE("tensor: an attached parameter cannot stop requiring its gradient") {
  Tensor p = attached({1, 2}, 0, "p");
  CHECK_THROWS_WITH_AS(p.set_requires_grad(false), doctest::Contains("\"p\""), AutodiffError);
}

TEST_CASE("gradgradcheck: takes functions that are linear in their inputs") {
  const Tensor x = leaf({0.5, -1.5, 2.5});
  gradgradcheck([](const std::vector<Tensor>& in) { return in[0] + 2 * in[0]; }, {x});
  gradgradcheck([](const std::vector<Tensor>& in) { return relu(in[0]); }, {x});
  gradgradcheck([](const std::vector<Tensor>& in) { return slice(in[0], 0, 1, 3); }, {x});
}

TEST_CASE("slice: bounds that are out of range on the left are refused") {
  CHECK_THROWS_AS(slice(leaf({1, 2, 3, 4, 5}), 0, -7, 5), ShapeError);
}

TEST_CASE("linear, max_pool2d: empty batches and empty features") {
  const Tensor no_features(Array::zeros({5, 2, 0}, DType::f64, test_device()));
  CHECK(linear(no_features, Tensor(Array::zeros({4, 0}, DType::f64, test_device()))).shape() == Shape{5, 2, 4});
  const Tensor images(Array::zeros({0, 2, 4, 4}, DType::f64, test_device()), true);
  const Tensor inputs[] = {images};
  const Tensor first = grad(square(max_pool2d(images)), inputs, {.create_graph = true})[0];
  CHECK(grad(first, inputs)[0].shape() == Shape{0, 2, 4, 4});
}

}  // namespace
}  // namespace tutti
