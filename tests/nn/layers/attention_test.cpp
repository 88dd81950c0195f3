// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/attention.h>
#include <tutti/nn/transformer.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tutti;

namespace {

using Names = std::vector<std::string>;
using Values = std::vector<double>;

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  Generator random(seed);
  return Tensor(random.normal(shape, DType::f64, test_device()));
}

void randomize(const Tensor& parameter, std::uint64_t seed) {
  Array values = parameter.array();
  values.copy_from(random_tensor(values.shape(), seed).array());
}

void check_near(const Tensor& value, const Tensor& expected) {
  REQUIRE(value.shape() == expected.shape());
  const Values got = value.to_vector<double>();
  const Values wanted = expected.to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-11).scale(1));
}

Names names(Module& module) {
  Names result;
  for (const auto& [name, tensor] : module.named_parameters()) result.push_back(name);
  return result;
}

MultiheadAttention attention_of(std::int64_t features, std::int64_t heads, MultiheadAttentionOptions options = {}) {
  Generator random(1);
  options.dtype = DType::f64;
  options.device = test_device();
  MultiheadAttention layer(features, heads, random, options);
  if (options.bias) randomize(layer.in_proj_bias, 2), randomize(layer.out_proj.bias, 3);
  return layer;
}

TransformerBlock block_of(TransformerBlockOptions options = {}) {
  Generator random(1);
  options.dtype = DType::f64;
  options.device = test_device();
  return TransformerBlock(8, 2, random, options);
}

}  // namespace

TEST_CASE("MultiheadAttention: each head attends by its features alone") {
  MultiheadAttention layer = attention_of(6, 2);
  CHECK(names(layer) == Names{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"});
  CHECK(layer.in_proj_weight.shape() == Shape{18, 6});
  const Tensor x = random_tensor({3, 4, 6}, 4);
  const Tensor parts = linear(x, layer.in_proj_weight, layer.in_proj_bias);
  std::vector<Tensor> heads;
  for (std::int64_t h = 0; h < 2; ++h) {
    const auto part = [&](std::int64_t which) { return slice(parts, -1, 6 * which + 3 * h, 6 * which + 3 * h + 3); };
    heads.push_back(matmul(softmax(matmul(part(0), transpose(part(1))) / std::sqrt(3.0)), part(2)));
  }
  check_near(layer.forward(x), layer.out_proj.forward(concatenate(heads, -1)));
}

TEST_CASE("MultiheadAttention: with another sequence; its own gives the same as self-attention, with all gradients") {
  for (const std::int64_t shared : {0, 1, 2}) {
    for (const bool bias : {true, false}) {
      MultiheadAttention layer = attention_of(8, 4, {.key_value_heads = shared, .bias = bias});
      const Tensor x = random_tensor({2, 5, 8}, 4);
      check_near(layer.forward(x, x, x), layer.forward(x));
      backward(sum(square(layer.forward(x))));
      const Tensor gradient = layer.in_proj_weight.grad();
      layer.zero_grad();
      backward(sum(square(layer.forward(x, x, x))));
      check_near(layer.in_proj_weight.grad(), gradient);
      CHECK(layer.forward(x, random_tensor({2, 3, 8}, 5), random_tensor({2, 3, 8}, 6)).shape() == x.shape());
    }
  }
}

TEST_CASE("MultiheadAttention: shared heads are those of a layer whose keys and values repeat") {
  const MultiheadAttention shared = attention_of(4, 2, {.key_value_heads = 1});
  MultiheadAttention repeated = attention_of(4, 2);
  const auto repeat = [](const Tensor& x) {
    const Tensor parts[] = {x[range(0, 4)], x[range(4, 6)], x[range(4, 6)], x[range(6, 8)], x[range(6, 8)]};
    return concatenate(parts, 0).detach().array();
  };
  repeated.in_proj_weight.set_array(repeat(shared.in_proj_weight));
  repeated.in_proj_bias.set_array(repeat(shared.in_proj_bias));
  repeated.out_proj.weight.set_array(shared.out_proj.weight.array());
  const Tensor x = random_tensor({2, 3, 4}, 1);
  check_near(shared.forward(x), repeated.forward(x));
}

TEST_CASE("MultiheadAttention: causal, masked and rotary") {
  const Tensor x = random_tensor({2, 5, 8}, 4);
  const Tensor parts[] = {x[{all, range(0, 3)}], random_tensor({2, 2, 8}, 5)};
  const Tensor changed = concatenate(parts, 1);
  for (const bool rotary : {false, true}) {
    const MultiheadAttention layer =
        attention_of(8, 2, {.rotary = rotary ? std::optional(RotaryCall()) : std::nullopt});
    const auto first = [](const Tensor& y) { return y[{all, range(0, 3)}]; };
    check_near(first(layer.forward(x, {.causal = true})), first(layer.forward(changed, {.causal = true})));
    const Tensor seen = Tensor(Array::arange(5, DType::i64, test_device())) < 3;
    const AttentionMask padding{.mask = reshape(seen, {1, 1, 1, 5})};
    check_near(first(layer.forward(x, padding)), layer.forward(first(x)));
    check_near(first(layer.forward(x, padding)), first(layer.forward(changed, padding)));
  }
  // Without positions a sequence is a set; with them it is not.
  const Tensor backwards[] = {x[{all, range(4, 5)}], x[{all, range(0, 4)}]};
  const auto last = [&](const MultiheadAttention& layer) {
    return layer.forward(concatenate(backwards, 1))[{all, 0}].to_vector<double>()[0] -
           layer.forward(x)[{all, 4}].to_vector<double>()[0];
  };
  CHECK(std::abs(last(attention_of(8, 2))) < 1e-12);
  CHECK(std::abs(last(attention_of(8, 2, {.rotary = RotaryCall()}))) > 1e-6);
  const Tensor one = slice(x, 1, 4, 5);
  CHECK_THROWS_WITH_AS(attention_of(8, 2, {.rotary = RotaryCall()}).forward(one, x, x),
                       doctest::Contains("queries of 1 positions and keys of 5"), ShapeError);
}

TEST_CASE("MultiheadAttention: drops weights in training alone") {
  MultiheadAttention layer = attention_of(8, 2, {.dropout = 0.5});
  const Tensor x = random_tensor({2, 5, 8}, 4);
  CHECK(layer.forward(x).to_vector<double>() != layer.forward(x).to_vector<double>());
  layer.eval();
  check_near(layer.forward(x), attention_of(8, 2).forward(x));
}

TEST_CASE("MultiheadAttention: refuses heads that do not divide") {
  Generator random(1);
  CHECK_THROWS_AS(MultiheadAttention(8, 3, random), ShapeError);
  CHECK_THROWS_AS(MultiheadAttention(8, 0, random), ShapeError);
  CHECK_THROWS_AS(MultiheadAttention(8, 4, random, {.key_value_heads = 3}), ShapeError);
}

TEST_CASE("MultiheadAttention: refuses vectors") {
  const Tensor vector(Array::zeros({8}, DType::f64, test_device()));
  CHECK_THROWS_WITH_AS(attention_of(8, 2).forward(vector),
                       "[MultiheadAttention] x is [8]: [..., steps, 8 features] are needed", ShapeError);
}

TEST_CASE("TransformerBlock: both orders of norms are their formulas, with torch's names") {
  for (const bool pre_norm : {true, false}) {
    TransformerBlock block = block_of({.hidden = 12, .pre_norm = pre_norm});
    CHECK(names(block) == Names{"self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
                                "self_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight",
                                "linear2.bias", "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"});
    const Tensor x = random_tensor({2, 3, 8}, 1);
    const auto feed = [&](const Tensor& y) {
      return linear(gelu(linear(y, block.linear1.weight, block.linear1.bias)), block.linear2.weight,
                    block.linear2.bias);
    };
    const auto attend = [&](const Tensor& y) { return block.self_attn.forward(y); };
    Tensor expected;
    if (pre_norm) {
      const Tensor y = x + attend(layer_norm(x, {8}));
      expected = y + feed(layer_norm(y, {8}));
    } else {
      const Tensor y = layer_norm(x + attend(x), {8});
      expected = layer_norm(y + feed(y), {8});
    }
    check_near(block.forward(x), expected);
  }
}

TEST_CASE("TransformerBlock: dropout and its absence, masks, causality") {
  TransformerBlock block = block_of({.causal = true, .dropout = 0.3});
  const Tensor x = random_tensor({2, 3, 8}, 1);
  CHECK(block.forward(x).to_vector<double>() != block.forward(x).to_vector<double>());
  block.eval();
  CHECK_FALSE(block.self_attn.training());
  check_near(block.forward(x), block_of({.causal = true}).forward(x));
  check_near(block.forward(x)[{all, range(0, 1)}], block.forward(x[{all, range(0, 1)}]));
  const Tensor ones(Array::full({3, 3}, 1, DType::f64, test_device()));
  check_near(block.forward(x), block_of().forward(x, tril(ones) == 1.0));
}

TEST_CASE("TransformerBlock: two of them learn to answer with the token before") {
  Generator random(3);
  const TransformerBlockOptions options{.rotary = RotaryCall(), .causal = true, .device = test_device()};
  Sequential model(Linear(4, 16, random, {.device = test_device()}), TransformerBlock(16, 2, random, options),
                   TransformerBlock(16, 2, random, options), Linear(16, 4, random, {.device = test_device()}));
  std::vector<std::int64_t> tokens;
  for (int i = 0; i < 16 * 6; ++i) tokens.push_back(static_cast<std::int64_t>(random.below(4)));
  const Tensor sequence(Array::from(tokens, {16, 6}, test_device()));
  const Tensor x = one_hot(sequence, 4);
  const Tensor targets = reshape(sequence[{all, range(0, 5)}], {16 * 5});
  const auto loss_now = [&] { return cross_entropy(reshape(slice(model.forward(x), 1, 1, 6), {16 * 5, 4}), targets); };
  AdamW optimizer(model.parameters(), 0.01);
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    backward(loss_now());
    optimizer.step();
  }
  CHECK(loss_now().item<double>() < 0.05);
}
