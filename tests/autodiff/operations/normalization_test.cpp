// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/normalization.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/close.h>

#include <doctest/doctest.h>

#include <cmath>

namespace tutti {
namespace {

/// The sums that are compared have other orders.
void check_close(const Tensor& found, const Tensor& expected, double epsilon = 1e-10) {
  testing::check_close(found, expected, epsilon);
}

using Inputs = std::vector<Tensor>;

// The definitions, one operation after the other.
Tensor plain_layer_norm(const Tensor& x, const Axes& axes, double eps) {
  return (x - mean(x, axes, true)) / sqrt(var(x, axes, 0, true) + eps);
}

// Both have the same value, first and second derivatives.
void check_equal(const CheckedFunction& f, const CheckedFunction& expected, const Inputs& inputs) {
  const auto derivatives = [&](const CheckedFunction& function) {
    const Tensor y = function(inputs);
    Inputs results{y};
    const Tensor weight = tanh(y.detach() * 3.0 + 0.5);
    const Tensor loss = sum(y * weight) + sum(y * y * y);
    const auto kernels = grad(loss, inputs, {.retain_graph = true});
    const auto first = grad(loss, inputs, {.create_graph = true});
    Tensor penalty(0.0);
    for (const Tensor& gradient : first) penalty = penalty + sum(gradient * gradient * gradient);
    const auto second = grad(penalty, inputs);
    for (const auto* each : {&kernels, &first, &second}) results.insert(results.end(), each->begin(), each->end());
    return results;
  };
  const Inputs values = derivatives(f);
  const Inputs wanted = derivatives(expected);
  for (std::size_t i = 0; i < values.size(); ++i) check_close(values[i], wanted[i], 1e-8);
}

TEST_CASE("layer_norm: equals its definition, over one axis and several, with and without weight and bias") {
  const Tensor x = spread({3, 2, 5}, 1);
  check_equal([](const Inputs& in) { return layer_norm(in[0], {5}); },
              [](const Inputs& in) { return plain_layer_norm(in[0], {-1}, 1e-5); }, {x});
  check_equal(
      [](const Inputs& in) {
        return layer_norm(in[0], {2, 5}, in[1], in[2], 1e-3);
      },
      [](const Inputs& in) {
        return plain_layer_norm(in[0], {1, 2}, 1e-3) * in[1] + in[2];
      },
      {x, spread({2, 5}, 2), spread({2, 5}, 3)});
  check_equal([](const Inputs& in) { return layer_norm(in[0], {5}, {}, in[1]); },
              [](const Inputs& in) { return plain_layer_norm(in[0], {-1}, 1e-5) + in[1]; }, {x, spread({5}, 3)});
}

TEST_CASE("layer_norm, rms_norm, group_norm: gradients by differences") {
  const Tensor x = spread({3, 4}, 1);
  const Tensor weight = spread({4}, 2);
  const Tensor bias = spread({4}, 3);
  check_gradients([](const Inputs& in) { return layer_norm(in[0], {4}, in[1], in[2]); }, {x, weight, bias});
  check_gradients([](const Inputs& in) { return rms_norm(in[0], {4}, in[1], 1e-5); }, {x, weight});
  check_gradients([](const Inputs& in) { return group_norm(in[0], 2, in[1], in[2]); },
                  {spread({2, 4, 3}, 4), weight, bias});
}

TEST_CASE("rms_norm: equals its definition; by default eps is the machine's") {
  const auto plain = [](const Inputs& in) { return in[0] / sqrt(mean(square(in[0]), {-1}, true) + 1e-3) * in[1]; };
  check_equal([](const Inputs& in) { return rms_norm(in[0], {4}, in[1], 1e-3); }, plain,
              {spread({2, 3, 4}, 1), spread({4}, 2)});
  const Tensor tiny = constant({1e-9, -1e-9}, {1, 2});
  check_close(rms_norm(tiny, {2}), tiny / std::sqrt(1e-18 + std::numeric_limits<double>::epsilon()));
}

TEST_CASE("group_norm: equals layer norms of each group's channels") {
  const auto plain = [](const Inputs& in) {
    const Tensor apart = reshape(in[0], {2, 3, 2, 2, 2});
    const Tensor y = reshape(plain_layer_norm(apart, {2, 3, 4}, 1e-5), {2, 6, 2, 2});
    return y * reshape(in[1], {6, 1, 1}) + reshape(in[2], {6, 1, 1});
  };
  check_equal([](const Inputs& in) { return group_norm(in[0], 3, in[1], in[2]); }, plain,
              {spread({2, 6, 2, 2}, 1), spread({6}, 2), spread({6}, 3)});
}

TEST_CASE("batch_norm: training equals its definition, any rank; running statistics follow") {
  for (const Shape& shape : {Shape{5, 3}, Shape{2, 3, 4}, Shape{2, 3, 2, 3}, Shape{3, 3, 20}, Shape{2, 3, 4, 5}}) {
    CAPTURE(to_string(shape));
    Axes axes{0};
    Shape channel{3};
    for (std::size_t i = 2; i < shape.size(); ++i) axes.push_back(static_cast<std::int64_t>(i)), channel.push_back(1);
    const auto plain = [&](const Inputs& in) {
      return plain_layer_norm(in[0], axes, 1e-5) * reshape(in[1], channel) + reshape(in[2], channel);
    };
    const auto norm = [](const Inputs& in) { return batch_norm(in[0], {}, {}, in[1], in[2], {.training = true}); };
    const Inputs inputs{spread(shape, 1), spread({3}, 2), spread({3}, 3)};
    check_equal(norm, plain, inputs);
    check_gradients(norm, inputs);

    const Tensor mean_before = constant({1, 2, 3}, {3});
    const Tensor var_before = constant({4, 5, 6}, {3});
    const Tensor running_mean(mean_before.array().copy());
    const Tensor running_var(var_before.array().copy());
    check_close(
        batch_norm(inputs[0], running_mean, running_var, inputs[1], inputs[2], {.training = true, .momentum = 0.25}),
        plain(inputs));
    check_close(running_mean, mean_before * 0.75 + mean(inputs[0], axes) * 0.25);
    check_close(running_var, var_before * 0.75 + var(inputs[0], axes, 1) * 0.25);
  }
}

TEST_CASE("batch_norm: evaluation uses the running statistics and leaves them") {
  const Tensor mean = constant({1, -2}, {2});
  const Tensor variance = constant({4, 0.25}, {2});
  const Tensor x = constant({1, -2, 3, -1.5}, {2, 2});
  check_close(batch_norm(x, mean, variance, {}, {}, {.eps = 0}), constant({0, 0, 1, 1}, {2, 2}));
  CHECK(mean.to_vector<double>() == Values{1, -2});
  check_gradients([&](const Inputs& in) { return batch_norm(in[0], mean, variance, in[1], in[2]); },
                  {spread({3, 2, 2}, 1), spread({2}, 2), spread({2}, 3)});
}

TEST_CASE("batch_norm: statistics of parts are those of the whole batch") {
  const Tensor whole = spread({5, 2, 3}, 1);
  const Tensor weight = spread({2}, 2);
  Tensor other;  // what the other one would send
  (void)batch_norm(whole[range(3, 5)], {}, {}, {}, {}, {.training = true, .gather = [&](const Tensor& part) {
                                                          other = part;
                                                          return part;
                                                        }});
  const auto gather = [&](const Tensor& part) {
    const Tensor parts[] = {part, other};
    return concatenate(parts, 0);
  };
  const Tensor mean(Array::zeros({2}, DType::f64, test_device()));
  const Tensor variance(Array::zeros({2}, DType::f64, test_device()));
  const Tensor part = batch_norm(whole[range(0, 3)], mean, variance, weight, {}, {.training = true, .gather = gather});
  check_close(part, batch_norm(whole, {}, {}, weight, {}, {.training = true})[range(0, 3)]);
  check_close(mean, tutti::mean(whole, {0, 2}) * 0.1);
  check_close(variance, var(whole, {0, 2}, 1) * 0.1);
}

TEST_CASE("norms: large means and 16 bits lose nothing but the last rounding") {
  Generator random(3);
  const Tensor noise(random.normal({4, 3, 64}, DType::f32, test_device()));
  const Tensor wide = cast(cast(noise + 50.0, DType::bf16), DType::f32);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor x(wide.array().cast(dtype), true);
    const Tensor same = cast(cast(x, DType::f32), DType::f64).detach();
    const double epsilon = dtype == DType::bf16 ? 0.005 : 0.0006;
    for (const auto& norm : std::vector<CheckedFunction>{
             [](const Inputs& in) { return layer_norm(in[0], {64}); },
             [](const Inputs& in) { return rms_norm(in[0], {64}); },
             [](const Inputs& in) { return group_norm(in[0], 3); },
             [](const Inputs& in) { return batch_norm(in[0], {}, {}, {}, {}, {.training = true}); }}) {
      const Tensor y = norm({x});
      CHECK(y.dtype() == dtype);
      check_close(y, norm({same}), epsilon);
      backward(sum(y * y));
      CHECK(x.grad().dtype() == dtype);
    }
  }
}

TEST_CASE("norms: weights of another dtype are taken, the result has the input's") {
  const Tensor x(spread({2, 4}, 1).array().cast(DType::bf16));
  const Tensor weight(spread({4}, 2).array().cast(DType::f32), true);
  const Tensor y = layer_norm(x, {4}, weight);
  CHECK(y.dtype() == DType::bf16);
  backward(sum(y));
  CHECK(weight.grad().dtype() == DType::f32);
  CHECK(layer_norm(index({1, 2, 3}, {1, 3}), {3}).dtype() == DType::f32);
}

TEST_CASE("norms: nothing to normalise is no error, and gradients are defined") {
  const Tensor x = leaf({}, {0, 4});
  const Tensor weight = spread({4}, 1);
  const Tensor y = layer_norm(x, {4}, weight);
  CHECK(y.shape() == Shape{0, 4});
  backward(sum(y));
  CHECK(weight.grad().to_vector<double>() == Values(4, 0.0));
  CHECK(group_norm(leaf({}, {0, 4, 2}), 2).shape() == Shape{0, 4, 2});
}

TEST_CASE("norms: refuse what does not fit, by name") {
  const Tensor x = spread({2, 4}, 1);
  CHECK_THROWS_WITH_AS(layer_norm(x, {3}), doctest::Contains("layer_norm"), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {}), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {4}, spread({3}, 1)), ShapeError);
  CHECK_THROWS_WITH_AS(rms_norm(x, {2, 2, 4}), doctest::Contains("rms_norm"), ShapeError);
  CHECK_THROWS_WITH_AS(group_norm(x, 3), doctest::Contains("group_norm"), ShapeError);
  CHECK_THROWS_AS(batch_norm(x, {}, {}), ShapeError);
  CHECK_THROWS_AS(batch_norm(x, spread({4}, 1), {}), ShapeError);
  CHECK_THROWS_AS(batch_norm(spread({1, 4}, 1), {}, {}, {}, {}, {.training = true}), ShapeError);
  CHECK_THROWS_AS(batch_norm(x, {}, {}, spread({2}, 1), {}, {.training = true}), ShapeError);
}

TEST_CASE("batch_norm: running statistics outlive a gathered batch of one value a channel, or of none") {
  const auto both = [](const Tensor& part) { return part; };
  const Tensor mean = constant({1, 2}, {2});
  const Tensor variance = constant({3, 4}, {2});
  const BatchNormCall call{.training = true, .gather = both};
  const Tensor none = batch_norm(leaf({}, {0, 2}), mean, variance, {}, {}, call);
  CHECK(none.size() == 0);
  CHECK(mean.to_vector<double>() == Values{1, 2});
  CHECK(variance.to_vector<double>() == Values{3, 4});
  const Tensor x = leaf({11, 12}, {1, 2});
  const Tensor one = batch_norm(x, mean, variance, {}, {}, call);
  CHECK(one.to_vector<double>() == Values{0, 0});
  backward(sum(one));
  for (const double gradient : x.grad().to_vector<double>()) CHECK(std::isfinite(gradient));
  check_close(mean, constant({2, 3}, {2}));
  check_close(variance, constant({2.7, 3.6}, {2}));
}

}  // namespace
}  // namespace tutti
