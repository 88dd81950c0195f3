// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/captured_forward.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/initialize.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/normalization.h>
#include <tutti/nn/recurrent.h>
#include <tutti/nn/sequential.h>
#include <tutti/nn/transformer.h>
#include <tutti/tests/nn/captured/switched.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <thread>

namespace tutti {

using testing::drawn;
using testing::Switched;

namespace {

/// Calls it with inputs of these shapes in turn, beside the model itself.
void check_same(Layer& model, const std::vector<Shape>& shapes, int calls) {
  Generator random(7);
  CapturedForward forward(model, {.check_every = 4});
  for (int i = 0; i < calls; ++i)
    for (const Shape& shape : shapes) {
      const Tensor x = drawn(random, shape);
      const Inference inference;
      const std::vector<float> expected = model(x).to_vector<float>();
      CHECK(forward(x).to_vector<float>() == expected);
    }
  const CaptureReport report = forward.report();
  const auto sorts = static_cast<std::int64_t>(shapes.size());
  CHECK(report.eager == sorts);
  CHECK(report.captured >= 2 * sorts);
  CHECK(report.replayed >= sorts * (calls - 6));
  CHECK(report.memory > 0);
}

struct Recurrent : Layer {
  explicit Recurrent(Generator& random)
      : lstm(5, 7, random, {.layers = 2, .bidirectional = true}), head(14, 3, random) {}
  Tensor compute(const Tensor& x) const override { return head(lstm(x).sequence); }
  void visit(MemberVisitor& v) override {
    v.module("lstm", lstm);
    v.module("head", head);
  }
  LSTM lstm;
  Linear head;
};

struct Attending : Layer {
  explicit Attending(Generator& random) : block(8, 2, random, {.causal = true}) {}
  Tensor compute(const Tensor& x) const override { return block(x); }
  void visit(MemberVisitor& v) override { v.module("block", block); }
  TransformerBlock block;
};

}  // namespace

TEST_CASE("captured forward: replays are the model itself, of several shapes") {
  Generator random(1);
  Sequential mlp(Linear(6, 8, random), ReLU(), Linear(8, 2, random));
  mlp.detach_members_to(test_device());
  check_same(mlp, {{4, 6}, {1, 6}}, 12);
  Sequential normed(Linear(6, 8, random), BatchNorm(8), Dropout(0.5, random), Linear(8, 2, random));
  normed.detach_members_to(test_device());
  normed.eval();
  check_same(normed, {{4, 6}}, 12);
  Attending block(random);
  block.detach_members_to(test_device());
  check_same(block, {{2, 5, 8}}, 12);
  Recurrent recurrent(random);
  recurrent.detach_members_to(test_device());
  check_same(recurrent, {{6, 2, 5}, {3, 1, 5}}, 12);
}

TEST_CASE("captured forward: outputs are the caller's, and no gradient is recorded") {
  Generator random(2);
  Sequential mlp(Linear(6, 8, random), ReLU(), Linear(8, 2, random));
  mlp.detach_members_to(test_device());
  CapturedForward forward(mlp);
  std::vector<std::vector<float>> values;
  std::vector<Tensor> kept;
  for (int i = 0; i < 8; ++i) {
    kept.push_back(forward(drawn(random, {3, 6})));
    CHECK_FALSE(kept.back().requires_grad());
    values.push_back(kept.back().to_vector<float>());
  }
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(kept[i].to_vector<float>() == values[i]);
  CHECK(forward.report().replayed > 0);
}

TEST_CASE("captured forward: parameters written in place are seen; another array is another capture") {
  Generator random(3);
  Switched model(random);
  model.detach_members_to(test_device());
  CapturedForward forward(model, {.check_every = 0});
  const Tensor x = drawn(random, {4, 3});
  const auto check = [&] {
    const Inference inference;
    CHECK(forward(x).to_vector<float>() == model(x).to_vector<float>());
  };
  for (int i = 0; i < 5; ++i) check();
  {
    const NoGrad off;
    fill_constant(model.linear.weight, 0.25);
  }
  check();
  CHECK(forward.report().captured == 2);
  CHECK(forward.report().replayed == 3);
  model.linear.weight.set_array(Array::full({2, 3}, 0.5, DType::f32, test_device()));
  check();
  CHECK(forward.report().reason == "\"linear.weight\" was given another array");
  check();
  check();
  CHECK(forward.report().captured == 4);
}

TEST_CASE("captured forward: members that are others, and another Autocast, lead to another capture") {
  Generator random(11);
  Switched model(random);
  model.detach_members_to(test_device());
  CapturedForward forward(model, {.check_every = 0});
  const Tensor x = drawn(random, {4, 3});
  const auto check = [&] {
    const Inference inference;
    const Tensor y = forward(x);
    const Tensor expected = model(x);
    CHECK(y.dtype() == expected.dtype());
    CHECK(cast(y, DType::f32).to_vector<float>() == cast(expected, DType::f32).to_vector<float>());
  };
  for (int i = 0; i < 5; ++i) check();
  model.linear = Linear(3, 2, random);
  model.detach_members_to(test_device());
  check();
  CHECK(forward.report().reason == "members of the model are others");
  for (int i = 0; i < 3; ++i) check();
  const std::int64_t replayed = forward.report().replayed;
  {
    const Autocast narrow(DType::bf16);
    for (int i = 0; i < 4; ++i) check();
  }
  CHECK(forward.report().replayed > replayed);
  check();
}

TEST_CASE("captured forward: within another capture it is a part of that") {
  Generator random(12);
  Switched inner(random);
  inner.detach_members_to(test_device());
  CapturedForward teacher(inner);
  Generator data(13);
  for (int i = 0; i < 5; ++i) teacher(drawn(data, {4, 3}));
  CHECK(teacher.report().replayed > 0);
  CapturedForward outer(inner, [&](std::span<const Tensor> in) { return std::vector{teacher(in[0]) * 2}; });
  for (int i = 0; i < 8; ++i) {
    const Tensor x = drawn(data, {4, 3});
    const Inference inference;
    CHECK(outer(x).to_vector<float>() == (inner(x) * 2).to_vector<float>());
  }
  CHECK(outer.report().replayed > 0);
}

TEST_CASE("captured forward: within another capture its inputs and outputs are copies as well") {
  Generator random(15);
  Switched model(random);
  model.detach_members_to(test_device());
  const std::vector<float> weight = model.linear.weight.to_vector<float>();
  CapturedForward inner(model, [&](std::span<const Tensor> in) {
    in[0].add_(1);
    return std::vector{in[0], transpose(model.linear.weight)};
  });
  CapturedForward outer(model, [&](std::span<const Tensor> in) {
    const std::vector<Tensor> outputs = inner({in[0]});
    outputs[1].mul_(0.5);
    return std::vector{outputs[0] + in[0], outputs[1] + 0};
  });
  const Tensor x = drawn(random, {4, 3});
  const std::vector<float> expected = (x + 1 + x).to_vector<float>();
  for (int i = 0; i < 6; ++i) {
    CHECK(outer({x})[0].to_vector<float>() == expected);
    CHECK(model.linear.weight.to_vector<float>() == weight);
  }
  CHECK(outer.report().replayed > 0);
}

TEST_CASE("captured forward: a model without members runs where its inputs are" *
          doctest::skip(test_device().kind != DeviceKind::cpu)) {
  Sequential model{ReLU()};
  CapturedForward forward(model, {.check_every = 0});
  Generator random(19);
  for (int i = 0; i < 5; ++i)
    for (const Device device : {cpu(0), cpu(1)}) {
      const Tensor x(random.normal({3}, DType::f32, device));
      const Tensor y = forward(x);
      CHECK(y.device() == device);
      CHECK(y.to_vector<float>() == relu(x).to_vector<float>());
    }
  CHECK(forward.report().replayed == 4);
}

TEST_CASE("captured forward: inputs are copies, and what views them or weights is the caller's own") {
  Generator random(14);
  Switched model(random);
  model.detach_members_to(test_device());
  CapturedForward forward(model, [&](std::span<const Tensor> in) {
    in[0].add_(1);
    return std::vector{in[0], transpose(model.linear.weight), model(in[0])};
  });
  const Tensor x = transpose(drawn(random, {3, 4}));
  const std::vector<float> before = x.to_vector<float>();
  const std::vector<float> weight = model.linear.weight.to_vector<float>();
  const std::vector<float> shifted = (x + 1).to_vector<float>();
  for (int i = 0; i < 6; ++i) {
    const std::vector<Tensor> outputs = forward({x});
    CHECK(outputs[0].to_vector<float>() == shifted);
    for (const Tensor& output : outputs) output.fill_(0);
    CHECK(x.to_vector<float>() == before);
    CHECK(model.linear.weight.to_vector<float>() == weight);
  }
}

TEST_CASE("captured forward: several inputs and outputs, random numbers as the model draws them") {
  Generator weights(6);
  Switched model(weights);
  model.detach_members_to(test_device());
  Generator own(8);
  Generator other(8);
  const auto with = [&](Generator& random) {
    return [&](std::span<const Tensor> in) {
      const Tensor y = model(in[0]) + in[1];
      return std::vector{y * drawn(random, {4, 2}), y};
    };
  };
  CapturedForward forward(model, with(own));
  const auto plain = with(other);
  Generator random(9);
  for (int i = 0; i < 9; ++i) {
    const Tensor inputs[] = {drawn(random, {4, 3}), drawn(random, {2})};
    const Inference inference;
    const std::vector<Tensor> found = forward(inputs);
    const std::vector<Tensor> expected = plain(inputs);
    REQUIRE(found.size() == 2);
    for (std::size_t j = 0; j < 2; ++j) CHECK(found[j].to_vector<float>() == expected[j].to_vector<float>());
  }
  CHECK(forward.report().replayed > 0);
}

TEST_CASE("captured forward: threads share the weights, each with captures of its own" *
          doctest::skip(test_device().kind != DeviceKind::cpu)) {
  Generator random(10);
  Recurrent model(random);
  // Each thread has inputs of its own, another one in each call.
  constexpr int kCalls = 40;
  std::vector<Tensor> inputs[3];
  std::vector<std::vector<float>> expected[3];
  for (std::size_t i = 0; i < 3; ++i)
    for (int call = 0; call < kCalls; ++call) {
      const Inference inference;
      inputs[i].push_back(drawn(random, {6, 2, 5}));
      expected[i].push_back(model(inputs[i].back()).to_vector<float>());
    }
  int wrong[3] = {};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      CapturedForward forward(model);
      for (std::size_t call = 0; call < kCalls; ++call)
        wrong[i] += forward(inputs[i][call]).to_vector<float>() == expected[i][call] ? 0 : 1;
    });
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) CHECK(count == 0);
}

}  // namespace tutti
