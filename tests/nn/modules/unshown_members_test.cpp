// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/checkpoint.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/scope.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/normalization.h>
#include <tutti/nn/recurrent.h>
#include <tutti/nn/transformer.h>
#include <tutti/nn/unshown_members.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace tutti;

namespace {

Tensor ones_on_device(const Shape& shape) { return Tensor(Array::full(shape, 1, DType::f32, test_device())); }

enum class Forgotten { nothing, module, parameter, buffer };

struct Forgetful : Module {
  Forgotten forgotten;
  Linear hidden;
  std::vector<Linear> outputs;  // on the heap, where the size of the class tells nothing
  Tensor scale;
  Tensor count;

  Forgetful(Forgotten what, Generator& random)
      : forgotten(what),
        hidden(3, 4, random, {.device = test_device()}),
        scale(Array::full({2}, 1, DType::f32, test_device()), true),
        count(Array::zeros({100}, DType::f32, test_device())) {
    outputs.push_back(Linear(4, 2, random, {.bias = false, .device = test_device()}));
  }
  Tensor forward(const Tensor& x) const { return outputs[0].forward(relu(hidden.forward(x))) * scale; }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    if (forgotten != Forgotten::module) v.module("output", outputs[0]);
    if (forgotten != Forgotten::parameter) v.parameter("scale", scale);
    if (forgotten != Forgotten::buffer) v.buffer("count", count);
  }
};

std::vector<UnshownLeaf> found_in(Forgotten what) {
  Generator random(1);
  Forgetful model(what, random);
  return unshown_leaves(model, sum(model.forward(ones_on_device({5, 3}))));
}

std::size_t bytes_of(Forgotten what) {
  return unshown_bytes(
      [what] {
        Generator random(1);
        return Forgetful(what, random);
      },
      test_device());
}

}  // namespace

TEST_CASE("unshown_leaves: a member that visit forgot, with its shape and who reads it") {
  CHECK(found_in(Forgotten::nothing).empty());
  CHECK(found_in(Forgotten::buffer).empty());

  const auto module = found_in(Forgotten::module);
  REQUIRE(module.size() == 1);
  CHECK(module[0].shape == Shape{2, 4});
  CHECK(to_string(module[0]) == "a leaf f32 [2, 4] on " + to_string(test_device()) + ", read by linear");

  const auto parameter = found_in(Forgotten::parameter);
  REQUIRE(parameter.size() == 1);
  CHECK(parameter[0].shape == Shape{2});
  CHECK(parameter[0].reader == "multiply");
}

TEST_CASE("unshown_leaves: after backward too, through checkpoints, in scopes, and of no graph") {
  Generator random(1);
  Forgetful model(Forgotten::module, random);
  Tensor input = ones_on_device({5, 3});
  input.set_requires_grad(true);
  const Scope scope("encoder");
  const Tensor loss = sum(checkpoint([&](const Tensor& x) { return model.forward(x); }, input));
  for (int pass = 0; pass < 2; ++pass) {
    const auto unshown = unshown_leaves(model, loss);
    std::multiset<std::string> shapes;
    for (const UnshownLeaf& leaf : unshown) {
      shapes.insert(to_string(leaf.shape));
      CHECK(leaf.reader.ends_with(" in encoder"));
    }
    CHECK(shapes == std::multiset<std::string>{"[2, 4]", "[5, 3]"});
    if (pass == 0) backward(loss);
  }
  CHECK(unshown_leaves(model, ones_on_device({})).empty());
  CHECK(unshown_leaves(model, model.scale).empty());
  CHECK(unshown_leaves(model, input).size() == 1);
}

TEST_CASE("unshown_bytes: any member that visit forgot, read by a loss or not") {
  CHECK(bytes_of(Forgotten::nothing) == 0);
  CHECK(bytes_of(Forgotten::module) >= 32);
  CHECK(bytes_of(Forgotten::parameter) >= 8);
  CHECK(bytes_of(Forgotten::buffer) >= 400);
}

TEST_CASE("unshown_bytes: layers of the library show all that they keep") {
  const auto of = [](auto make) {
    return unshown_bytes([&] {
      Generator random(1);
      return make(random);
    });
  };
  CHECK(of([](Generator& random) { return TransformerBlock(8, 2, random, {.dropout = 0.1}); }) == 0);
  CHECK(of([](Generator& random) { return LSTM(3, 4, random, {.layers = 2}); }) == 0);
  CHECK(of([](Generator&) { return BatchNorm(5); }) == 0);
}
