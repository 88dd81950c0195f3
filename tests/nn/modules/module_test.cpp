// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/module.h>
#include <tutti/tests/test_devices.h>

using namespace tutti;

namespace {

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

struct Block : Module {
  Linear inner;
  Tensor scale{Array::full({3}, 2.0, DType::f32, test_device()), true};
  Tensor count{Array::zeros({}, DType::i64, test_device())};

  explicit Block(Generator& random) : inner(3, 3, random, {.bias = false, .device = test_device()}) {}
  void visit(MemberVisitor& visitor) override {
    visitor.module("inner", inner);
    visitor.parameter("scale", scale);
    visitor.buffer("count", count);
  }
};

struct Model : Module {
  Linear first;
  Block block;

  explicit Model(Generator& random) : first(2, 3, random, {.device = test_device()}), block(random) {}
  void visit(MemberVisitor& visitor) override {
    visitor.module("first", first);
    visitor.module("block", block);
  }
};

/// Two layers with one weight, as in an autoencoder with tied weights.
struct Tied : Module {
  Linear a;
  Linear b;

  explicit Tied(Generator& random)
      : a(4, 4, random, {.device = test_device()}), b(4, 4, random, {.bias = false, .device = test_device()}) {
    b.weight = a.weight;
  }
  void visit(MemberVisitor& visitor) override {
    visitor.module("a", a);
    visitor.module("b", b);
  }
};

struct TwoOfOneName : Module {
  Tensor a{Array::zeros({1}, DType::f32, test_device()), true};
  Tensor b{Array::zeros({1}, DType::f32, test_device()), true};
  void visit(MemberVisitor& visitor) override {
    visitor.parameter("weight", a);
    visitor.parameter("weight", b);
  }
};

}  // namespace

TEST_CASE("module: parameters and buffers have dotted names in order of declaration") {
  Generator random(1);
  Model model(random);
  CHECK(names_of(model.named_parameters()) ==
        std::vector<std::string>{"first.weight", "first.bias", "block.inner.weight", "block.scale"});
  CHECK(names_of(model.named_buffers()) == std::vector<std::string>{"block.count"});
  CHECK(names_of(model.named_members()) ==
        std::vector<std::string>{"first.weight", "first.bias", "block.inner.weight", "block.scale", "block.count"});
  CHECK(model.parameters().size() == 4);
  CHECK(model.parameters()[3].is_same(model.block.scale));
}

TEST_CASE("module: a shared tensor is listed once, under its first name") {
  Generator random(1);
  Tied tied(random);
  CHECK(names_of(tied.named_parameters()) == std::vector<std::string>{"a.weight", "a.bias"});
}

TEST_CASE("module: two tensors of one name are refused") {
  TwoOfOneName module;
  CHECK_THROWS_WITH_AS(module.named_parameters(), doctest::Contains("\"weight\""), Error);
  module.b = module.a;
  CHECK(module.named_parameters().size() == 1);
}

TEST_CASE("module: train and eval reach all modules below") {
  Generator random(1);
  Model model(random);
  CHECK(model.block.inner.training());
  model.eval();
  CHECK_FALSE(model.training());
  CHECK_FALSE(model.first.training());
  CHECK_FALSE(model.block.inner.training());
  model.train();
  CHECK(model.block.inner.training());
}

TEST_CASE("module: a copy shares its tensors, a clone does not") {
  Generator random(1);
  Model model(random);
  model.eval();
  Model copy = model;
  CHECK(copy.first.weight.is_same(model.first.weight));

  Model other = clone(model, test_device(1));
  synchronize(test_device(1));
  CHECK_FALSE(other.training());
  const NamedTensors before = model.named_parameters();
  const NamedTensors after = other.named_parameters();
  REQUIRE(names_of(before) == names_of(after));
  for (std::size_t i = 0; i < before.size(); ++i) {
    CAPTURE(before[i].first);
    CHECK_FALSE(after[i].second.is_same(before[i].second));
    CHECK(after[i].second.device() == test_device(1));
    CHECK(after[i].second.requires_grad());
    CHECK(after[i].second.is_leaf());
    CHECK(after[i].second.to_vector<float>() == before[i].second.to_vector<float>());
  }
  CHECK(other.block.count.device() == test_device(1));
  CHECK_FALSE(other.block.count.requires_grad());

  Array changed = other.first.bias.array();
  changed.fill(7.0);
  CHECK(model.first.bias.to_vector<float>()[0] != 7.0F);
}

TEST_CASE("module: a clone on the same device has storage of its own") {
  Generator random(1);
  Linear layer(2, 2, random, {.device = test_device()});
  Linear other = clone(layer, test_device());
  Array changed = other.weight.array();
  changed.fill(9.0);
  CHECK(layer.weight.to_vector<float>()[0] != 9.0F);
}

TEST_CASE("module: a clone keeps sharing inside, and only inside") {
  Generator random(1);
  const Tied tied(random);
  const Tied other = clone(tied, test_device(1));
  CHECK(other.a.weight.is_same(other.b.weight));
  CHECK_FALSE(other.a.weight.is_same(tied.a.weight));
  CHECK(tied.a.weight.is_same(tied.b.weight));
}

TEST_CASE("module: a clone keeps what is frozen") {
  Generator random(1);
  Linear layer(2, 2, random, {.device = test_device()});
  layer.weight.set_requires_grad(false);
  Linear other = clone(layer, test_device(1));
  CHECK_FALSE(other.weight.requires_grad());
  CHECK(other.bias.requires_grad());
}

TEST_CASE("module: zero_grad marks every gradient undefined") {
  Generator random(1);
  Linear layer(2, 2, random, {.device = test_device()});
  layer.weight.set_requires_grad(false);
  GradientSlot& slot = layer.bias.gradient_slot();
  slot.gradient = Array::full({2}, 1.0, DType::f32, test_device());
  slot.state = GradientState::accumulated;
  REQUIRE(layer.bias.grad().defined());
  layer.zero_grad();
  CHECK_FALSE(layer.bias.grad().defined());
}

TEST_CASE("module: describe names every tensor and counts the values") {
  Generator random(1);
  Model model(random);
  const std::string text = describe(model);
  CHECK(text.find(as_tested("parameter first.weight [3, 2] f32 on cpu:0\n")) != std::string::npos);
  CHECK(text.find(as_tested("buffer block.count [] i64 on cpu:0\n")) != std::string::npos);
  CHECK(text.find("21 values in 4 parameters\n") != std::string::npos);
}
