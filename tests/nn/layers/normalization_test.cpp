// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/normalization.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/sequential.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

using namespace tutti;

namespace {

Tensor random_tensor(const Shape& shape, std::uint64_t seed, DType dtype = DType::f64) {
  Generator random(seed);
  return Tensor(random.normal(shape, dtype, test_device(), 2.0, 3.0));
}

std::vector<std::string> names(const NamedTensors& tensors) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : tensors) result.push_back(name);
  return result;
}

using Names = std::vector<std::string>;
using Values = std::vector<double>;

void check_near(const Tensor& value, const Tensor& expected) {
  REQUIRE(value.shape() == expected.shape());
  const Values got = value.to_vector<double>();
  const Values wanted = expected.to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-12).scale(1));
}

const NormOptions kOptions{.dtype = DType::f64, .device = test_device()};

}  // namespace

TEST_CASE("LayerNorm, RMSNorm, GroupNorm: start as the plain normalisation, with members of its shape") {
  const Tensor x = random_tensor({2, 4, 6}, 1);
  LayerNorm layer({4, 6}, kOptions);
  CHECK(names(layer.named_parameters()) == Names{"weight", "bias"});
  CHECK(layer.weight.shape() == Shape{4, 6});
  check_near(layer.forward(x), layer_norm(x, {4, 6}));
  LayerNorm last(6, {.affine = false, .device = test_device()});
  CHECK(last.named_parameters().empty());
  check_near(last.forward(x), layer_norm(x, {6}));
  RMSNorm rms(6, {.eps = 0.1, .dtype = DType::f64, .device = test_device()});
  CHECK(names(rms.named_parameters()) == Names{"weight"});
  check_near(rms.forward(x), rms_norm(x, {6}, {}, 0.1));
  GroupNorm group(2, 4, kOptions);
  CHECK(group.weight.shape() == Shape{4});
  check_near(group.forward(x), group_norm(x, 2));
  backward(sum(square(layer.forward(x)) + square(rms.forward(x)) + square(group.forward(x))));
  for (const Tensor& parameter : {layer.weight, layer.bias, rms.weight, group.weight, group.bias})
    CHECK(parameter.grad().shape() == parameter.shape());
}

TEST_CASE("BatchNorm: training follows the batches, evaluation uses what was followed") {
  BatchNorm layer(3, {.momentum = 0.5, .dtype = DType::f64, .device = test_device()});
  CHECK(names(layer.named_parameters()) == Names{"weight", "bias"});
  CHECK(names(layer.named_buffers()) == Names{"running_mean", "running_var"});
  Tensor mean(Array::zeros({3}, DType::f64, test_device()));
  Tensor variance(Array::full({3}, 1, DType::f64, test_device()));
  for (std::uint64_t i = 0; i < 3; ++i) {
    const Tensor x = random_tensor({4, 3, 2, 2}, i);
    check_near(layer.forward(x), batch_norm(x, {}, {}, {}, {}, {.training = true}));
    mean = mean * 0.5 + tutti::mean(x, {0, 2, 3}) * 0.5;
    variance = variance * 0.5 + var(x, {0, 2, 3}) * 0.5;
  }
  check_near(layer.running_mean, mean);
  check_near(layer.running_var, variance);
  layer.eval();
  const Tensor x = random_tensor({5, 3}, 9);  // of another rank, too
  check_near(layer.forward(x), (x - mean) / sqrt(variance + 1e-5));
  check_near(layer.running_mean, mean);
}

TEST_CASE("BatchNorm: without tracking each batch stands for itself; copies share buffers, clones do not") {
  const Tensor x = random_tensor({4, 3}, 1);
  BatchNorm untracked(3, {.track = false, .dtype = DType::f64, .device = test_device()});
  CHECK(untracked.named_buffers().empty());
  untracked.eval();
  check_near(untracked.forward(x), batch_norm(x, {}, {}, {}, {}, {.training = true}));
  BatchNorm layer(3, {.dtype = DType::f64, .device = test_device()});
  const BatchNorm copy = layer;
  BatchNorm apart = clone(layer, test_device());
  (void)layer.forward(x);
  CHECK(copy.running_mean.to_vector<double>() == layer.running_mean.to_vector<double>());
  CHECK(apart.running_mean.to_vector<double>() == Values(3, 0.0));
}

TEST_CASE("BatchNorm: statistics are gathered in training alone, once a forward") {
  BatchNorm layer(2, {.device = test_device()});
  int calls = 0;
  layer.gather = [&](const Tensor& part) {
    CHECK(part.shape() == Shape{1, 5});
    ++calls;
    return part;
  };
  const Tensor x = random_tensor({4, 2}, 1, DType::f32);
  (void)layer.forward(x);
  CHECK(calls == 1);
  layer.eval();
  (void)layer.forward(x);
  CHECK(calls == 1);
}

TEST_CASE("norms: stand in a Sequential, and take another type with it") {
  Sequential model(LayerNorm(4, {.device = test_device()}), BatchNorm(4, {.device = test_device()}));
  model.detach_members_as(DType::bf16);
  const Tensor y = model.forward(random_tensor({3, 4}, 1, DType::bf16));
  CHECK(y.dtype() == DType::bf16);
  CHECK(model.named_buffers().front().second.dtype() == DType::bf16);
  backward(sum(square(y)));
  for (const Tensor& parameter : model.parameters()) CHECK(parameter.grad().dtype() == DType::bf16);
}

TEST_CASE("norms: refuse impossible sizes and types") {
  CHECK_THROWS_AS(LayerNorm(0), ShapeError);
  CHECK_THROWS_AS(LayerNorm(Shape{}), ShapeError);
  CHECK_THROWS_AS(LayerNorm(3, {.dtype = DType::i64}), DTypeError);
  CHECK_THROWS_AS(GroupNorm(3, 4), ShapeError);
  CHECK_THROWS_AS(GroupNorm(0, 4), ShapeError);
  CHECK_THROWS_AS(BatchNorm(-1), ShapeError);
}
