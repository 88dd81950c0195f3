// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/scope.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/random.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/attention.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/normalization.h>
#include <tutti/nn/sequential.h>
#include <tutti/nn/transformer.h>
#include <tutti/tests/error_text.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <string>

namespace tutti {
namespace {

using testing::error_of;

Tensor zeros(const Shape& shape) { return Tensor(Array::zeros(shape, DType::f32, test_device())); }

Linear linear_of(std::int64_t in, std::int64_t out, Generator& random) {
  return {in, out, random, {.device = test_device()}};
}

struct Classifier : Layer {
  explicit Classifier(Generator& random)
      : body(linear_of(4, 3, random), ReLU(), linear_of(5, 2, random)), head(linear_of(4, 2, random)) {}
  Tensor compute(const Tensor& x) const override { return head(body(x)); }
  void visit(MemberVisitor& visitor) override {
    visitor.module("body", body);
    visitor.module("head", head);
  }
  Sequential body;
  Linear head;
};

TEST_CASE("module errors: name the module by its place in the outermost that is being called") {
  Generator random(1);
  const Classifier model(random);
  CHECK(error_of([&] { model.body.forward(zeros({2, 4})); }).ends_with("(in Sequential.2: Linear)"));
  CHECK(error_of([&] { model.forward(zeros({2, 4})); }).ends_with("(in Classifier.body.2: Linear)"));
  CHECK(error_of([&] { model(zeros({2, 9})); }).ends_with("(in Classifier.body.0: Linear)"));
  CHECK(error_of([&] { call(model, zeros({2, 9})); }).ends_with("(in Classifier.body.0: Linear)"));
  CHECK(error_of([&] { model.head(zeros({2, 9})); }).ends_with("(in Linear)"));
  CHECK(error_of([&] { model.head.forward(zeros({2, 9})); }).ends_with("(in Linear)"));
  CHECK_THROWS_AS(model.forward(zeros({2, 4})), ShapeError);
  const Scope training("training");
  CHECK(error_of([&] { model.forward(zeros({2, 4})); }).ends_with("(in training, Classifier.body.2: Linear)"));
  const ModuleCall elsewhere(model.head);
  CHECK(error_of([&] { model.body.forward(zeros({2, 4})); }).ends_with("(in training, Linear > Sequential.2: Linear)"));
}

TEST_CASE("module errors: nothing is named when no module is being called") {
  Generator random(1);
  const Classifier model(random);
  error_of([&] { model.forward(zeros({2, 4})); });
  CHECK(error_of([&] { zeros({2}) + zeros({3}); }).ends_with("f32 [2], f32 [3]"));
}

struct Unshown : Module {
  Tensor forward(const Tensor& x) const { return call(inner, x); }
  void visit(MemberVisitor&) override { raise("[unshown] has members that it does not show"); }
  ReLU inner;
};

TEST_CASE("module errors: a model that cannot show its members is named all the same") {
  const Unshown model;
  const ModuleCall here(model);
  const ModuleCall inner(model.inner);
  CHECK(error_of([&] { zeros({2}) + zeros({3}); }).ends_with("(in Unshown > ReLU)"));
  CHECK(error_of([&] { zeros({2}) + zeros({3}); }).ends_with("(in Unshown > ReLU)"));
}

struct Older : Module {  // no layer: named where `call` runs it
  explicit Older(Generator& random) : head(linear_of(4, 2, random)) {}
  Tensor forward(const Tensor& x) const { return call(head, x); }
  void visit(MemberVisitor& visitor) override { visitor.module("head", head); }
  Linear head;
};

TEST_CASE("module errors: of a module that is no layer") {
  Generator random(1);
  const Older model(random);
  CHECK(error_of([&] { call(model, zeros({2, 9})); }).ends_with("(in Older.head: Linear)"));
  CHECK(error_of([&] { Sequential(model).forward(zeros({2, 9})); }).ends_with("(in Sequential.0.head: Linear)"));
}

TEST_CASE("module errors: layers of layers") {
  Generator random(1);
  const TransformerBlock block(8, 2, random, {.device = test_device()});
  const std::string error = error_of([&] { block.forward(zeros({2, 3, 7})); });
  CHECK(error.find("[layer_norm]") == 0);
  CHECK(error.ends_with("(in TransformerBlock.norm1: LayerNorm)"));
  const MultiheadAttention attention(8, 2, random, {.device = test_device()});
  CHECK(error_of([&] {
          attention.forward(zeros({2, 3, 7}));
        }) == "[MultiheadAttention] x is [2, 3, 7]: [..., steps, 8 features] are needed");
  CHECK(error_of([&] {
          attention.forward(zeros({2, 3, 8}), zeros({2, 3, 8}), zeros({8}));
        }) == "[MultiheadAttention] the value is [8]: [..., steps, 8 features] are needed");
  const BatchNorm norm(4, {.device = test_device()});
  const BatchNorm without(4, {.track = false, .device = test_device()});
  const char* got = "[batch_norm] the input [2, 3, 5] has 3 channels, the ";
  CHECK(error_of([&] { norm.forward(zeros({2, 3, 5})); }).starts_with(std::string(got) + "running mean is for 4;"));
  CHECK(error_of([&] { without.forward(zeros({2, 3, 5})); }).starts_with(std::string(got) + "weight is for 4;"));
}

}  // namespace
}  // namespace tutti
