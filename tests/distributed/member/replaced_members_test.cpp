// SPDX-License-Identifier: Apache-2.0
// Tensors that look like a part of the model and belong to no group: whoever would train them is told.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/collectives.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

Tensor another(std::size_t d = 0) { return Tensor(Array::full({2}, 5.0, DType::f64, test_device(d)), true); }

// What groups warn of, in the thread that watches their deadlines.
class Warnings {
 public:
  std::function<void(const std::string&)> hear() {
    return [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      texts_.push_back(text);
    };
  }
  // Once `count` are there, or after five seconds.
  std::vector<std::string> wait_for(std::size_t count) {
    for (int i = 0; i < 500; ++i) {
      {
        const std::lock_guard lock(mutex_);
        if (texts_.size() >= count) return texts_;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return {};
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

// Errors by device of `steps` steps whose loss is of the members that each replica shows.
std::vector<std::string> errors_of_steps(GradientSync& sync, std::vector<TwoBranches>& replicas, int steps) {
  return errors_of_devices(sync.devices().size(), [&](std::size_t d) {
    for (int i = 0; i < steps; ++i) {
      replicas[d].zero_grad();
      auto step = sync.step(test_device(d));
      step.backward(use(replicas[d].left, 1.0) + use(replicas[d].right, 2.0));
    }
  });
}

constexpr auto kReplaced = "the replica of cpu:1 is not what was attached: parameter \"right\" is another tensor.";

}  // namespace

TEST_CASE("replaced members: a loss that reads one fails the step on all devices") {
  GradientSync sync(test_devices(2));
  auto replicas = sync.replicate(TwoBranches{});
  replicas[1].right = another(1);
  for (const std::string& error : errors_of_steps(sync, replicas, 1))
    CHECK_MESSAGE(error.find(as_tested(kReplaced)) != std::string::npos, error);
}

TEST_CASE("replaced members: also of a replica that was moved, and after steps that knew another leaf") {
  Warnings warnings;
  GradientSync sync(test_devices(1), {.warn = warnings.hear()});
  std::vector<TwoBranches> replicas = sync.replicate(TwoBranches{});
  TwoBranches model = std::move(replicas[0]);
  replicas.clear();
  const Tensor input = another();
  bool with_input = true;
  const auto take_step = [&] {
    model.zero_grad();
    auto step = sync.step(test_device());
    step.backward((with_input ? sum(model.left * input) : use(model.left, 5.0)) + use(model.right, 1.0));
  };
  for (int i = 0; i < 3; ++i) CHECK_NOTHROW(take_step());
  CHECK(gradient_of(model.left) == Values{5, 5});
  const auto texts = warnings.wait_for(1);
  REQUIRE(texts.size() == 1);  // in three steps
  CHECK_MESSAGE(texts[0].find(as_tested("the loss of cpu:0 in step 1 reaches 1 leaf that requires a gradient and "
                                        "belongs to no group, the first of shape [2]. ")) != std::string::npos,
                texts[0]);
  model.left = another();
  SUBCASE("which the loss still reaches") {}
  SUBCASE("so that there is one of them, as before") { with_input = false; }
  CHECK_THROWS_WITH_AS(take_step(), doctest::Contains("parameter \"left\" is another tensor"), SyncError);
}

TEST_CASE("replaced members: what was accumulated is looked at when it is synchronised") {
  GradientSync sync(test_devices(1));
  auto replicas = sync.replicate(TwoBranches{});
  replicas[0].right = another();
  auto step = sync.step(test_device());
  {
    const auto alone = step.no_sync();
    backward(use(replicas[0].left, 1.0) + use(replicas[0].right, 1.0));
  }
  CHECK_THROWS_WITH_AS(step.synchronize(), doctest::Contains("parameter \"right\" is another tensor"), SyncError);
}

TEST_CASE("replaced members: buffers and frozen parameters that forward makes anew are the model's own business") {
  struct Masked : TwoBranches {
    Tensor mask;
    Tensor frozen{Array::full({2}, 1.0, DType::f64, test_device()), false};
    void visit(MemberVisitor& v) override {
      TwoBranches::visit(v);
      v.buffer("mask", mask);
      v.parameter("frozen", frozen);
    }
  };
  GradientSync sync(test_devices(1), {.buffers = BufferPolicy::synchronised, .consistency_every = 1});
  auto replicas = sync.replicate(Masked{});
  for (int i = 0; i < 2; ++i) {
    replicas[0].zero_grad();
    auto step = sync.step(test_device());
    replicas[0].mask = Tensor(Array::full({2}, 1.0, DType::f64, test_device()));
    replicas[0].frozen = Tensor(Array::full({2}, 2.0, DType::f64, test_device()));
    CHECK_NOTHROW(step.backward(sum(replicas[0].left * replicas[0].mask * replicas[0].frozen * another())));
  }
}

TEST_CASE("replaced members: a collective's own leaf, where only the root's input has a gradient, is none of them") {
  Warnings warnings;
  GradientSync sync(test_devices(2), {.warn = warnings.hear()});
  auto replicas = sync.replicate(TwoBranches{});
  run_devices(2, [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    const Tensor input = d == 0 ? replicas[0].left * 1.0 : another(1).detach();
    const Tensor sent = sync.broadcast(test_device(d), input, test_device()).resolve();
    step.backward(sum(sent) + use(replicas[d].right, 1.0));
  });
  CHECK(gradient_of(replicas[1].right) == Values{1, 1});
  CHECK(warnings.wait_for(0).empty());
}

TEST_CASE("replaced members: the comparison of replicas looks at what they show now") {
  SUBCASE("by itself, though no loss reads the member") {
    GradientSync sync(test_devices(2), {.consistency_every = 1});
    auto replicas = sync.replicate(TwoBranches{});
    replicas[1].right = another(1);
    const auto errors = errors_of_devices(2, [&](std::size_t d) {
      auto step = sync.step(test_device(d));
      step.backward(use(replicas[d].left, 1.0));
    });
    for (const std::string& error : errors) CHECK_MESSAGE(error.find(as_tested(kReplaced)) != std::string::npos, error);
  }
  SUBCASE("when it is asked for: nobody waits for the device") {
    GradientSync sync(test_devices(2), {.fail_after = std::chrono::milliseconds(60'000)});
    auto replicas = sync.replicate(TwoBranches{});
    for (const std::string& error : errors_of_steps(sync, replicas, 1)) CHECK(error.empty());
    replicas[1].right = another(1);
    const auto errors = errors_of_devices(2, [&](std::size_t d) { sync.check_consistency(test_device(d)); });
    for (const std::string& error : errors) CHECK_MESSAGE(error.find(as_tested(kReplaced)) != std::string::npos, error);
  }
  SUBCASE("and new values in the same tensors are none of its business") {
    GradientSync sync(test_devices(2), {.consistency_every = 1});
    auto replicas = sync.replicate(TwoBranches{});
    for (std::size_t d = 0; d < 2; ++d) replicas[d].right.set_array(another(d).array());
    for (const std::string& error : errors_of_steps(sync, replicas, 2)) CHECK_MESSAGE(error.empty(), error);
  }
}

TEST_CASE("replaced members: an optimizer of the members now is not attached for the group's old ones") {
  GradientSync sync(test_devices(1));
  auto replicas = sync.replicate(TwoBranches{});
  Sgd before(replicas[0].parameters(), 0.1);
  replicas[0].left = another();
  CHECK_THROWS_WITH_AS(sync.attach(test_device(), before), doctest::Contains("parameter \"left\" is another tensor"),
                       SyncError);
}

TEST_CASE("replaced members: a replica that is gone, and copies of it, are not looked at") {
  GradientSync sync(test_devices(1), {.consistency_every = 1});
  std::vector<TwoBranches> copies;
  {
    TwoBranches model;
    sync.attach(test_device(), model);
    copies.push_back(model);
  }
  for (const std::string& error : errors_of_steps(sync, copies, 2)) CHECK_MESSAGE(error.empty(), error);
}

TEST_CASE("replaced members: an optimizer with a parameter of no group is not attached") {
  GradientSync sync(test_devices(2));
  auto replicas = sync.replicate(TwoBranches{});
  Sgd stranger({replicas[0].left, another()}, 0.1);
  CHECK_THROWS_WITH_AS(sync.attach(test_device(), stranger),
                       doctest::Contains(as_tested("parameter 1 of the optimizer for cpu:0, f64 [2], is none of the")),
                       SyncError);
  Tensor frozen = another();
  frozen.set_requires_grad(false);
  Sgd own({replicas[0].left, frozen}, 0.1);
  CHECK_NOTHROW(sync.attach(test_device(), own));
  TwoBranches alone;
  GradientSync later(test_devices(1));
  Sgd early(alone.parameters(), 0.1);
  CHECK_THROWS_WITH_AS(later.attach(test_device(), early), doctest::Contains("replica before its optimizer"),
                       SyncError);
}

TEST_CASE("replaced members: an optimizer does not step what is averaged together with what is not") {
  GradientSync sync(test_devices(1));
  auto replicas = sync.replicate(TwoBranches{});
  const Tensor left = replicas[0].left;
  const Tensor alone = another();
  Sgd mixed({left, alone}, 0.5);
  Sgd group({left, replicas[0].right}, 0.5);
  Sgd own({alone}, 0.5);
  auto step = sync.step(test_device());
  step.backward(use(left, 1.0) + use(alone, 2.0));  // a leaf beside the model may have a gradient
  CHECK_THROWS_WITH_AS(mixed.step(), doctest::Contains("parameter 1, f64 [2], belongs to no synchronisation group, as"),
                       Error);
  CHECK(left.to_vector<double>() == Values{1, 2});  // nothing was stepped
  group.step();
  own.step();
  CHECK(left.to_vector<double>() == Values{0.5, 1.5});
  CHECK(alone.to_vector<double>() == Values{4, 4});
}
