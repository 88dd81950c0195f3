// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/clip.h>
#include <tutti/tests/optim/gradients.h>
#include <tutti/tests/test_devices.h>

#include <cmath>
#include <limits>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<Tensor> three_parameters() {
  std::vector<Tensor> parameters{make_parameter<float>({0, 0}), make_parameter<double>({0}),
                                 make_parameter<float>({0})};
  set_gradient<float>(parameters[0], {3, 0});
  set_gradient<double>(parameters[1], {4});
  return parameters;  // the third has no gradient
}

}  // namespace

TEST_CASE("clip_grad_norm: the norm is over all gradients and is returned as it was") {
  const std::vector<Tensor> parameters = three_parameters();
  CHECK(clip_grad_norm(parameters, 10.0) == doctest::Approx(5.0));
  CHECK(parameters[0].grad().to_vector<float>()[0] == 3.0F);
  CHECK(clip_grad_norm(parameters, 1.0) == doctest::Approx(5.0));
  CHECK(parameters[0].grad().to_vector<float>()[0] == doctest::Approx(0.6));
  CHECK(parameters[0].grad().to_vector<float>()[1] == 0.0F);
  CHECK(parameters[1].grad().to_vector<double>()[0] == doctest::Approx(0.8));
  CHECK_FALSE(parameters[2].grad().defined());
  CHECK(clip_grad_norm(parameters, kInfinity) == doctest::Approx(1.0));
  CHECK(clip_grad_norm({parameters[1]}, kInfinity) == doctest::Approx(0.8));
}

TEST_CASE("clip_grad_norm: scales in place, in the storage of the gradient") {
  const Tensor p = make_parameter<float>({0, 0});
  const Array arena = Array::from(std::vector<float>{7, 6, 8, 9}, {4}, test_device());
  p.gradient_slot().gradient = arena.slice(0, 1, 3);
  p.gradient_slot().state = GradientState::accumulated;
  CHECK(clip_grad_norm({{p}}, 5.0) == doctest::Approx(10.0));
  const auto factor = static_cast<float>(5.0 / (10.0 + 1e-6));
  CHECK(arena.to_vector<float>() == std::vector<float>{7, 6 * factor, 8 * factor, 9});
}

TEST_CASE("clip_grad_norm: the factor is PyTorch's, with 1e-6 beside the norm") {
  const Tensor p = make_parameter<double>({0, 0});
  set_gradient<double>(p, {3e-6, 4e-6});
  CHECK(clip_grad_norm({{p}}, 2e-6) == doctest::Approx(5e-6));
  CHECK(p.grad().to_vector<double>()[0] == doctest::Approx(1e-6).epsilon(1e-12));
  set_gradient<double>(p, {3e-6, 4e-6});
  CHECK(clip_grad_norm({{p}}, 5.5e-6) == doctest::Approx(5e-6));  // within, but not by 1e-6
  CHECK(p.grad().to_vector<double>()[1] == doctest::Approx(4e-6 * 5.5 / 6).epsilon(1e-12));
  set_gradient<double>(p, {3e-6, 4e-6});
  CHECK(clip_grad_norm({{p}}, 6.5e-6) == doctest::Approx(5e-6));
  CHECK(p.grad().to_vector<double>()[1] == 4e-6);
}

TEST_CASE("clip_grad_norm: nothing to clip gives 0") {
  CHECK(clip_grad_norm({}, 1.0) == 0.0);
  CHECK(clip_grad_norm({{make_parameter<float>({1})}}, 1.0) == 0.0);
}

TEST_CASE("clip_grad_norm: squares that f32 cannot hold") {
  const Tensor p = make_parameter<float>({0, 0});
  set_gradient<float>(p, {3e25F, 4e25F});
  CHECK(clip_grad_norm({{p}}, 5.0) == doctest::Approx(5e25));
  CHECK(p.grad().to_vector<float>()[1] == doctest::Approx(4.0));
  set_gradient<float>(p, {3e-25F, 4e-25F});
  CHECK(clip_grad_norm({{p}}, 1.0) == doctest::Approx(5e-25));
}

TEST_CASE("clip_grad_norm: one norm of types and devices in turn") {
  const std::vector<Tensor> parameters{make_parameter<float>({0}), make_parameter<double>({0}),
                                       make_parameter<float>({0, 0}), make_parameter<float>({0}, test_device(1))};
  set_gradient<float>(parameters[0], {2});
  set_gradient<double>(parameters[1], {3});
  set_gradient<float>(parameters[2], {4, 4});
  set_gradient<float>(parameters[3], {2});
  CHECK(clip_grad_norm(parameters, kInfinity) == doctest::Approx(7.0));
}

TEST_CASE("clip_grad_norm: a norm that is not finite is returned and spreads nowhere") {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const Tensor p = make_parameter<float>({0, 0});
    const Tensor q = make_parameter<float>({0});
    set_gradient<float>(p, {bad, 1});
    set_gradient<float>(q, {8});
    const std::vector<Tensor> parameters{p, q};
    CHECK_FALSE(std::isfinite(clip_grad_norm(parameters, 1.0)));
    CHECK(p.grad().to_vector<float>()[1] == 1.0F);
    CHECK(q.grad().to_vector<float>()[0] == 8.0F);
    CHECK_THROWS_AS(clip_grad_norm(parameters, 1.0, {.throw_if_non_finite = true}), Error);
  }
}

TEST_CASE("clip_grad_norm: refuses gradients that were never reduced, and limits that are not positive") {
  const Tensor p = make_parameter<float>({0});
  set_gradient<float>(p, {8});
  CHECK_THROWS_AS(clip_grad_norm({{p}}, 0.0), Error);
  CHECK_THROWS_AS(clip_grad_norm({{p}}, std::nan("")), Error);
  attach(p, "fc1.bias");
  CHECK_THROWS_WITH_AS(clip_grad_norm({{p}}, 1.0), doctest::Contains("fc1.bias"), Error);
  p.gradient_slot().state = GradientState::settled;
  CHECK(clip_grad_norm({{p}}, 1.0) == doctest::Approx(8.0));
  CHECK(p.gradient_slot().state == GradientState::settled);
}

TEST_CASE("clip_grad_norm: a norm that is not finite may drop the gradients, so that nothing is stepped") {
  const std::vector<Tensor> parameters{make_parameter<float>({1, 2}), make_parameter<float>({3})};
  set_gradient<float>(parameters[0], {std::numeric_limits<float>::infinity(), 1});
  set_gradient<float>(parameters[1], {1});
  CHECK_FALSE(std::isfinite(clip_grad_norm(parameters, 1.0, {.drop_if_non_finite = true})));
  for (const Tensor& parameter : parameters) CHECK_FALSE(parameter.grad().defined());
  CHECK(clip_grad_norm(parameters, 1.0, {.drop_if_non_finite = true}) == 0.0);
}

TEST_CASE("clip_grad_norm_queued: the norm and the factor are those of clip_grad_norm, and stay on the device") {
  for (const double max_norm : {1e-3, 1.0, 4.99, 5.0, 10.0, kInfinity}) {
    CAPTURE(max_norm);
    const std::vector<Tensor> one{make_parameter<float>({0, 0}), make_parameter<double>({0})};
    const std::vector<Tensor> other{make_parameter<float>({0, 0}), make_parameter<double>({0})};
    for (const auto* parameters : {&one, &other}) {
      set_gradient<float>((*parameters)[0], {3, 0});
      set_gradient<double>((*parameters)[1], {4});
    }
    const Tensor norm = clip_grad_norm_queued(one, max_norm);
    CHECK(norm.device() == test_device());
    CHECK(norm.item<double>() == clip_grad_norm(other, max_norm));
    CHECK(one[0].grad().to_vector<float>() == other[0].grad().to_vector<float>());
    CHECK(one[1].grad().to_vector<double>() == other[1].grad().to_vector<double>());
  }
  CHECK(clip_grad_norm_queued({}, 1.0).item<double>() == 0.0);
  CHECK_THROWS_AS(clip_grad_norm_queued({}, 0.0), Error);
}

TEST_CASE("clip_grad_norm_queued: a gradient that is measured in parts") {
  constexpr std::int64_t kSize = (std::int64_t{1} << 22U) + 3;
  const Tensor p(Array::zeros({kSize}, DType::f32, test_device()), true);
  backward(sum(p * 2.0));
  CHECK(clip_grad_norm_queued({p}, 1.0).item<double>() == doctest::Approx(2 * std::sqrt(double{kSize})));
  CHECK(p.grad()[kSize - 1].item() == doctest::Approx(1 / std::sqrt(double{kSize})));
}

TEST_CASE("clip_grad_norm_queued: squares that f32 cannot hold, and a norm that is not finite") {
  const Tensor p = make_parameter<float>({0, 0});
  set_gradient<float>(p, {3e25F, 4e25F});
  CHECK(clip_grad_norm_queued({p}, 5.0).item<double>() == doctest::Approx(5e25));
  CHECK(p.grad().to_vector<float>()[1] == doctest::Approx(4.0));
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    set_gradient<float>(p, {bad, 8});
    CHECK_FALSE(std::isfinite(clip_grad_norm_queued({p}, 1.0).item<double>()));
    CHECK(p.grad().to_vector<float>()[1] == 8.0F);
  }
  const Tensor elsewhere = make_parameter<float>({0}, test_device(1));
  set_gradient<float>(elsewhere, {1});
  CHECK_THROWS_AS(clip_grad_norm_queued({p, elsewhere}, 1.0), DeviceError);
}

TEST_CASE("clip_grad_value: brings each element into the limits, in place") {
  const std::vector<Tensor> parameters{make_parameter<float>({0, 0, 0, 0}), make_parameter<double>({0}),
                                       make_parameter<float>({0}), make_parameter<float>({})};
  set_gradient<float>(parameters[0],
                      {3, -std::numeric_limits<float>::infinity(), 0.25F, std::numeric_limits<float>::quiet_NaN()});
  set_gradient<double>(parameters[1], {-4});
  const void* const storage = parameters[0].grad().array().raw_data();
  clip_grad_value(parameters, 0.5);
  const auto values = parameters[0].grad().to_vector<float>();
  CHECK(values[0] == 0.5F);
  CHECK(values[1] == -0.5F);
  CHECK(values[2] == 0.25F);
  CHECK(std::isnan(values[3]));
  CHECK(parameters[0].grad().array().raw_data() == storage);
  CHECK(parameters[1].grad().to_vector<double>()[0] == -0.5);
  CHECK_THROWS_WITH_AS(clip_grad_value(parameters, 0.0), doctest::Contains("limit must be positive, got 0"), Error);
  CHECK_THROWS_AS(clip_grad_value(parameters, std::nan("")), Error);
}
