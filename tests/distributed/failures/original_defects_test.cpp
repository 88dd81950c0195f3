// SPDX-License-Identifier: Apache-2.0
// What the server that inspired ours got wrong, case by case, where no other file has it.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/backend/error.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <memory>
#include <thread>

using namespace tutti;
using namespace tutti::testing;

namespace {

const SyncOptions kMean{.reduction = GradientReduction::mean};

struct Pair {
  explicit Pair(const SyncOptions& options = kMean)
      : sync(test_devices(2), options), replicas(sync.replicate(TwoBranches{})) {}
  GradientSync sync;
  std::vector<TwoBranches> replicas;
};

struct OneParameter : Module {
  Tensor scale{Array::full({1}, 4.0, DType::f64, test_device()), true};
  void visit(MemberVisitor& v) override { v.parameter("scale", scale); }
};

}  // namespace

TEST_CASE("original defects: backwards of other models are no rounds, whoever runs them and wherever") {
  Pair pair;
  constexpr int kSteps = 3;
  run_devices(2, [&](std::size_t d) {
    auto& model = pair.replicas[d];
    Tensor other(Array::full({2}, 5.0, DType::f64, test_device(d)), true);
    const auto unrelated = [&] {
      other.zero_grad();
      backward(sum(square(other)));
      CHECK(gradient_of(other) == Values{10, 10});
    };
    for (int i = 0; i < kSteps; ++i) {
      model.zero_grad();
      if (d == 0) unrelated();  // between steps, on one device only
      auto step = pair.sync.step(test_device(d));
      if (d == 1) unrelated();  // while the other device may wait for this one's round
      step.backward(use(model.left, 2.0 * d));
      CHECK(gradient_of(model.left) == Values{1, 1});
      if (d == 0) unrelated();  // in the step, after its round
    }
  });
  const SyncReport report = pair.sync.report();
  REQUIRE(report.steps.size() == kSteps);
  for (const SyncReport::Step& step : report.steps) CHECK(step.reductions.size() == 1);
}

TEST_CASE("original defects: the root of backward may be a parameter of the group") {
  GradientSync sync(test_devices(2), kMean);
  auto replicas = sync.replicate(OneParameter{});
  run_devices(2, [&](std::size_t d) {
    const Tensor& scale = replicas[d].scale;
    for (const bool both : {true, false}) {
      replicas[d].zero_grad();
      auto step = sync.step(test_device(d));
      const Tensor given(Array::full({1}, 2.0 + 4.0 * static_cast<double>(d), DType::f64, test_device(d)));
      if (both || d == 0)
        step.backward(scale, {.gradient = given});  // nothing but the leaf is in the graph
      else
        step.backward(sum(scale * 6.0));
      CHECK(gradient_of(scale) == Values{4});  // the mean of 2 and 6
    }
    replicas[d].zero_grad();
    auto step = sync.step(test_device(d));
    {
      const NoSync local = step.no_sync();
      backward(scale);
    }
    step.backward(scale);
    CHECK(gradient_of(scale) == Values{2});
  });
  for (const SyncReport::Step& step : sync.report().steps) CHECK(step.reductions.size() == 1);
}

TEST_CASE("original defects: two groups on the same devices keep their own options, and end apart") {
  for (const bool first_ends : {true, false}) {
    auto sums = std::make_unique<Pair>(SyncOptions{.reduction = GradientReduction::sum});
    auto means = std::make_unique<Pair>(kMean);
    const auto take = [](Pair& pair, double expected) {
      run_devices(2, [&](std::size_t d) {
        pair.replicas[d].zero_grad();
        auto step = pair.sync.step(test_device(d));
        step.backward(use(pair.replicas[d].left, d == 0 ? 2.0 : 6.0));
        CHECK(gradient_of(pair.replicas[d].left) == Values{expected, expected});
      });
    };
    take(*sums, 8);
    take(*means, 4);
    take(*sums, 8);
    (first_ends ? sums : means).reset();
    Pair& left = first_ends ? *means : *sums;
    take(left, first_ends ? 4 : 8);
    CHECK(left.sync.report().steps.size() == (first_ends ? 2 : 3));
  }
}

TEST_CASE("original defects: a second step on a device whose step is open is refused, and harms nobody") {
  Pair pair;
  auto first = pair.sync.step(test_device());
  const std::string expected = as_tested("cpu:0 opened a step while its step 1 is still open");
  CHECK_THROWS_WITH_AS((void)pair.sync.step(test_device()), doctest::Contains(expected.c_str()), SyncError);
  const auto errors = errors_of_devices(1, [&](std::size_t) { (void)pair.sync.step(test_device()); });  // of a thread
  CHECK_MESSAGE(errors[0].find(expected) != std::string::npos, errors[0]);
  auto other = pair.sync.step(test_device(1));
  first.backward_async(use(pair.replicas[0].left, 1));
  other.backward_async(use(pair.replicas[1].left, 5));
  join_all(first, other);
  CHECK(gradient_of(pair.replicas[0].left) == Values{3, 3});
  CHECK(gradient_of(pair.replicas[1].left) == Values{3, 3});
}

TEST_CASE("original defects: gradients are paired by parameter, not by order of arrival and shape") {
  GradientSync sync(test_devices(2), {.reduction = GradientReduction::mean, .bucket_bytes = 1});
  auto replicas = sync.replicate(TwoBranches{});
  run_devices(2, [&](std::size_t d) {
    const TwoBranches& model = replicas[d];
    const double own = d == 0 ? 1.0 : 3.0;
    auto step = sync.step(test_device(d));
    // What was used last is final first.
    Tensor loss = d == 0 ? use(model.left, own) : use(model.right, 10 * own);
    loss = loss + (d == 0 ? use(model.right, 10 * own) : use(model.left, own));
    step.backward(loss);
    CHECK(gradient_of(model.left) == Values{2, 2});
    CHECK(gradient_of(model.right) == Values{20, 20});
  });
  const SyncReport report = sync.report();
  REQUIRE(report.steps.size() == 1);
  const auto& reductions = report.steps.front().reductions;
  REQUIRE(reductions.size() == 2);
  const auto comes_first = [&](std::size_t device) {
    return reductions[0].ready[device] < reductions[1].ready[device];
  };
  CHECK(comes_first(0) != comes_first(1));  // the devices did produce them in opposite orders
}
