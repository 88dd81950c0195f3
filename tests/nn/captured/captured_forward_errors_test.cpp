// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/captured_forward.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/nn/captured/switched.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

namespace tutti {

using testing::drawn;
using testing::Switched;

TEST_CASE("captured forward: another branch is found at a check, or told by invalidate") {
  Generator random(4);
  Switched model(random);
  model.detach_members_to(test_device());
  const Tensor x = drawn(random, {4, 3});
  {
    CapturedForward forward(model);
    for (int i = 0; i < 4; ++i) forward(x);
    model.squares = true;
    CHECK_THROWS_WITH_AS(forward(x), doctest::Contains("[captured forward] it does something else than in the 1 calls"),
                         CaptureError);
  }
  CapturedForward forward(model);
  for (int i = 0; i < 4; ++i) forward(x);
  model.squares = false;
  forward.invalidate("linear from here on");
  const Inference inference;
  CHECK(forward(x).to_vector<float>() == model(x).to_vector<float>());
}

TEST_CASE("captured forward: what cannot be replayed is named") {
  Generator random(5);
  Switched model(random);
  model.detach_members_to(test_device());
  const Tensor x = drawn(random, {4, 3});
  CHECK_THROWS_WITH_AS(CapturedForward(model, {.check_every = -1}), doctest::Contains("[captured forward] check_every"),
                       Error);
  CapturedForward forward(model);
  CHECK_THROWS_WITH_AS(forward(std::span<const Tensor>()), doctest::Contains("without inputs"), CaptureError);
  model.reads = true;
  forward(x);
  CHECK_THROWS_WITH_AS(forward(x), doctest::Contains("on the host"), CaptureError);
  model.reads = false;
  model.keeps = true;
  CHECK_THROWS_WITH_AS(forward(x), doctest::Contains("1 tensors that the call made are kept"), CaptureError);
  model.keeps = false;
  model.kept = {};
  CHECK_THROWS_WITH_AS(forward({x, x}), doctest::Contains("one input, not 2"), CaptureError);
  for (int i = 0; i < 4; ++i) forward(x);
  CHECK(forward.report().replayed == 1);
  Tensor held;
  CapturedForward holding(model, [&](std::span<const Tensor> in) {
    held = in[0];
    return std::vector{model(in[0])};
  });
  holding(x);
  CHECK_THROWS_WITH_AS(holding(x), doctest::Contains("input 0 is kept beyond the call"), CaptureError);
}

TEST_CASE("captured forward: results that are others, by calls that are the same, are found") {
  Generator random(16);
  Switched model(random);
  model.detach_members_to(test_device());
  const Tensor x = drawn(random, {4, 3});
  std::int64_t at = 0;
  CapturedForward row(model, [&](std::span<const Tensor> in) {
    const Tensor y = model(in[0]);
    ++at;
    return std::vector{slice(y, 0, at - 1, at)};
  });
  row(x);
  row(x);
  CHECK_THROWS_WITH_AS(row(x), doctest::Contains("it returned other tensors, or other parts of them"), CaptureError);
  bool other = false;
  CapturedForward one(model, [&](std::span<const Tensor> in) {
    const Tensor y = model(in[0]);
    const Tensor z = y * 2;
    return std::vector{other ? z : y};
  });
  for (int i = 0; i < 4; ++i) one(x);
  other = true;
  CHECK_THROWS_WITH_AS(one(x), doctest::Contains("it returned other tensors"), CaptureError);
  CapturedForward fewer(model, [&](std::span<const Tensor> in) {
    const Tensor y = model(in[0]);
    std::vector<Tensor> results{y};
    if (other) results.push_back(y);
    return results;
  });
  fewer(x);
  fewer(x);
  other = false;
  CHECK_THROWS_WITH_AS(fewer(x), doctest::Contains("it returned other tensors"), CaptureError);
}

TEST_CASE("captured forward: literals are refused, and names of members that meet leave nothing behind") {
  Generator random(18);
  Switched model(random);
  model.detach_members_to(test_device());
  CapturedForward scaled(model, [&](std::span<const Tensor> in) { return std::vector{in[0] * in[1]}; });
  const Tensor x = drawn(random, {4, 3});
  if (test_device() == cpu())
    CHECK_THROWS_WITH_AS(scaled({x, Tensor(0.1)}),
                         doctest::Contains("[captured forward] tensor 1 of the call's is a literal"), CaptureError);

  struct Pair : Layer {
    Tensor compute(const Tensor& in) const override { return in * a + b; }
    void visit(MemberVisitor& v) override {
      v.buffer("a", a);
      v.buffer(twice ? "a" : "b", b);
    }
    Tensor a, b;
    bool twice = false;
  } pair;
  pair.a = drawn(random, {3});
  pair.b = drawn(random, {3});
  CapturedForward forward(pair);
  for (int i = 0; i < 5; ++i) forward(x);
  pair.b = drawn(random, {3});
  pair.twice = true;
  CHECK_THROWS_AS(forward(x), Error);
  pair.twice = false;
  const Inference inference;
  CHECK(forward(x).to_vector<float>() == pair(x).to_vector<float>());
}

}  // namespace tutti
