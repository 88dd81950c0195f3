// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/module_list.h>
#include <tutti/nn/module_tree.h>
#include <tutti/nn/parameter_selection.h>
#include <tutti/nn/sequential.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <utility>

using namespace tutti;

namespace {

Linear linear_of(std::int64_t in, std::int64_t out, Generator& random) {
  return Linear(in, out, random, {.device = test_device()});
}

struct Heads : Module {
  Sequential body;
  ModuleList<Linear> heads;
  Tensor count{Array::zeros({2}, DType::i64, test_device())};

  explicit Heads(Generator& random) {
    body.append("fc", linear_of(3, 4, random));
    body.append(ReLU());
    body.append("drop", Dropout(0.1, random));
    heads.append(linear_of(4, 2, random));
    heads.append(linear_of(4, 2, random));
  }
  void visit(MemberVisitor& visitor) override {
    visitor.module("body", body);
    visitor.module("heads", heads);
    visitor.buffer("count", count);
  }
};

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("ModuleList and named layers: members, copies, clones") {
  Generator random(1);
  Heads model(random);
  CHECK(names_of(model.named_parameters()) == std::vector<std::string>{"body.fc.weight", "body.fc.bias",
                                                                       "heads.0.weight", "heads.0.bias",
                                                                       "heads.1.weight", "heads.1.bias"});
  CHECK(model.heads.size() == 2);
  model.eval();
  for (const Linear& head : model.heads) CHECK_FALSE(head.training());
  Heads other = clone(model, test_device(1));
  CHECK(names_of(other.named_parameters()) == names_of(model.named_parameters()));
  CHECK(other.heads[1].weight.device() == test_device(1));
  CHECK_FALSE(other.heads[1].weight.is_same(model.heads[1].weight));
  CHECK_THROWS_AS(model.heads[2], std::out_of_range);
  Sequential twice;
  twice.append("same", linear_of(2, 2, random));
  twice.append("same", linear_of(2, 2, random));
  CHECK_THROWS_WITH_AS(twice.named_parameters(), doctest::Contains("\"same.weight\""), Error);
}

TEST_CASE("name_matches: * and ?") {
  CHECK(name_matches("encoder.0.weight", "encoder.*"));
  CHECK(name_matches("encoder.0.weight", "*.weight"));
  CHECK(name_matches("encoder.0.weight", "encoder.?.weight"));
  CHECK(name_matches("encoder.0.weight", "*"));
  CHECK(name_matches("encoder.0.weight", "*e*e*t"));
  CHECK(name_matches("abab", "*ab"));
  CHECK(name_matches("", "*"));
  CHECK(name_matches("", ""));
  CHECK_FALSE(name_matches("encoder.0.weight", "encoder"));
  CHECK_FALSE(name_matches("encoder.10.weight", "encoder.?.weight"));
  CHECK_FALSE(name_matches("encoder.0.weight", "*.bias"));
  CHECK_FALSE(name_matches("abab", "*aa"));
  CHECK_FALSE(name_matches("a", ""));
  CHECK_FALSE(name_matches("", "?"));
}

TEST_CASE("parameters are frozen by pattern, and then collect no gradient") {
  Generator random(2);
  Heads model(random);
  set_requires_grad(model, "body.*", false);
  CHECK_FALSE(model.parameters()[0].requires_grad());
  CHECK_FALSE(model.parameters()[1].requires_grad());
  CHECK(model.heads[0].weight.requires_grad());
  const Tensor x(Array::full({5, 3}, 1, DType::f32, test_device()));
  backward(sum(model.heads[0].forward(model.body.forward(x))));
  CHECK(model.heads[0].weight.grad().defined());
  CHECK_FALSE(model.heads[1].weight.grad().defined());
  set_requires_grad(model, "*", true);
  for (const Tensor& parameter : model.parameters()) CHECK(parameter.requires_grad());
  set_requires_grad(model.heads, "?.bias", false);  // names as seen from there
  CHECK_FALSE(model.heads[1].bias.requires_grad());
  CHECK_THROWS_WITH_AS(
      set_requires_grad(model.heads, "0.wieght", false),
      "[parameters] \"0.wieght\" matches no parameter; the module has 0.weight, 0.bias, 1.weight, 1.bias", Error);
}

TEST_CASE("split_by_name: each parameter once, the first pattern takes it") {
  Generator random(3);
  Heads model(random);
  const auto parts = split_by_name(model, {"heads.1.*", "*.bias"});
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].size() == 2);
  CHECK(parts[0][0].is_same(model.heads[1].weight));
  REQUIRE(parts[1].size() == 2);
  CHECK(parts[1][1].is_same(model.heads[0].bias));
  CHECK(parts[2].size() == 2);
  CHECK(split_by_name(model, {"*"})[1].empty());
  CHECK_THROWS_WITH_AS(split_by_name(model, {"*", "*.bias"}),
                       doctest::Contains("\"*.bias\" matches no parameter that the patterns before it leave"), Error);
}

TEST_CASE("tree_text: nesting, classes, shapes, counts, what is frozen and what is shared") {
  Generator random(4);
  Heads model(random);
  model.heads[1].bias = model.heads[0].bias;
  set_requires_grad(model, "body.*.weight", false);
  CHECK(tree_text(model) ==
        "Heads, 34 values\n"
        "  body: Sequential, 16 values\n"
        "    fc: Linear, 16 values\n"
        "      weight: f32 [4, 3], frozen\n"
        "      bias: f32 [4]\n"
        "    1: ReLU\n"
        "    drop: Dropout\n"
        "  heads: ModuleList, 18 values\n"
        "    0: Linear, 10 values\n"
        "      weight: f32 [2, 4]\n"
        "      bias: f32 [2]\n"
        "    1: Linear, 8 values\n"
        "      weight: f32 [2, 4]\n"
        "      bias: that of heads.0.bias\n"
        "  count: i64 [2], buffer\n");
}

TEST_CASE("Module::place: follows moves, stays where another module is assigned, ends with the module") {
  Generator random(1);
  Linear first = linear_of(2, 3, random);
  const auto place = first.place();
  CHECK(*place == &first);
  CHECK(first.place() == place);
  const Linear copy = first;
  CHECK(*place == &first);
  Linear moved = std::move(first);
  CHECK(*place == &moved);
  moved = copy;
  CHECK(*place == &moved);
  moved = linear_of(3, 2, random);
  CHECK(*place == &moved);
  Linear other = linear_of(2, 2, random);
  const auto other_place = other.place();
  std::swap(moved, other);
  CHECK(*place == &other);
  CHECK(*other_place == &moved);
  {
    Linear last(linear_of(2, 2, random));
    last = std::move(other);
    CHECK(*place == &last);
  }
  CHECK(*place == nullptr);
}
