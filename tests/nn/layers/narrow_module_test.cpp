// SPDX-License-Identifier: Apache-2.0
// Modules with parameters of 16 bits.
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/optim/adamw.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

using namespace tutti;

namespace {

struct Model : Module {
  Linear hidden;
  Linear output;
  Tensor seen = Tensor(Array::zeros({1}, DType::i64, test_device()));
  explicit Model(Generator& random, DType dtype)
      : hidden(4, 16, random, {.dtype = dtype, .device = test_device()}),
        output(16, 3, random, {.dtype = dtype, .device = test_device()}) {}
  Tensor forward(const Tensor& x) const { return output.forward(relu(hidden.forward(x))); }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("output", output);
    v.buffer("seen", seen);
  }
};

}  // namespace

TEST_CASE("modules: all floating members take another type, as leaves of their own") {
  Generator random(1);
  Model model(random, DType::f32);
  const Array before = model.hidden.weight.array();
  model.detach_members_as(DType::bf16);
  for (const Tensor& parameter : model.parameters()) {
    CHECK(parameter.dtype() == DType::bf16);
    CHECK(parameter.requires_grad());
    CHECK(parameter.is_leaf());
  }
  CHECK(model.seen.dtype() == DType::i64);
  CHECK(model.hidden.weight.to_vector<BFloat16>() == before.cast(DType::bf16).to_vector<BFloat16>());
  CHECK_THROWS_AS(model.detach_members_as(DType::i8), DTypeError);
}

TEST_CASE("modules: 16-bit parameters learn") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Generator random(2);
    Model model(random, dtype);
    CHECK(model.hidden.weight.dtype() == dtype);
    const Tensor x(random.normal({24, 4}, dtype, test_device()));
    const Tensor targets = argmax(x, 1);
    std::vector<std::int64_t> classes = targets.to_vector<std::int64_t>();
    for (std::int64_t& each : classes) each %= 3;
    const Tensor wanted(Array::from(classes, {24}, test_device()));
    AdamW optimizer(model.parameters(), 0.02);
    double first = 0;
    double last = 0;
    for (int step = 0; step < 60; ++step) {
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(cast(model.forward(x), DType::f32), wanted);
      backward(loss);
      optimizer.step();
      last = loss.item<double>();
      if (step == 0) first = last;
    }
    CHECK(last < 0.3 * first);
  }
}
