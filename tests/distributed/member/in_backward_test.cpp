// SPDX-License-Identifier: Apache-2.0
// Overlap::in_backward: parameters are updated while backward runs, and every step is bitwise that of the immediate
// mode.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/process/environment.h>
#include <tutti/backend/registry.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/clip.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>

using namespace tutti;
using namespace tutti::testing;

namespace {

Device device(std::size_t d) { return test_device(d); }

Tensor parameter(double first) {
  return Tensor(Array::from(std::vector<double>{first, first / 2, -first, 0.25}, {4}, test_device()), true);
}

enum class Reader : std::uint8_t { detached, view, custom };

/// `late` gets its gradient first, and is then read by a node of an earlier layer that gives it none.
struct Tangled : Module {
  Tensor early = parameter(0.9);
  Tensor late = parameter(0.7);
  Tensor shared = parameter(0.4);
  Tensor branch = parameter(-0.6);
  Reader reader = Reader::detached;

  Tensor read_late(const Tensor& x) const {
    if (reader == Reader::detached) return x * late.detach();
    if (reader == Reader::view) return sum(reshape(x, {2, 2}) * transpose(reshape(late.detach(), {2, 2})), {0});
    return custom_function(
        "reads what nothing refers to", {x},
        [this](std::span<const Array> in) { return (Tensor(in[0]) * late.detach()).array(); },
        [handle = late](std::span<const Array>, const Array&, const Array& dy) -> std::vector<Array> {
          return {(Tensor(dy) * handle.detach()).array()};
        });
  }
  Tensor loss(const Tensor& x, bool branches) const {
    Tensor h = tanh(read_late(early) + sum(shared * x));
    if (reader == Reader::view) h = concatenate(std::vector<Tensor>{h, h}, 0);
    if (branches) h = h * branch;
    return sum(square(h * shared * late));
  }
  void visit(MemberVisitor& v) override {
    v.parameter("early", early);
    v.parameter("late", late);
    v.parameter("shared", shared);
    v.parameter("branch", branch);
  }
};

template <class Base> struct Counting final : Base {
  using Base::Base;
  int updates = 0;
  int fail_at = -1;

 protected:
  void update(std::span<const Optimizer::Update> due) override {
    for (const Optimizer::Update& each : due) {
      if (++updates == fail_at) throw std::runtime_error("update burnt");
      Base::update({&each, 1});
    }
  }
};
using CountingSgd = Counting<Sgd>;

std::unique_ptr<Optimizer> optimizer_for(Module& model, bool adam) {
  if (adam) return std::make_unique<AdamW>(model.parameters(), 0.03);
  return std::make_unique<CountingSgd>(model.parameters(), 0.05, SgdOptions{.momentum = 0.9});
}

struct Training {
  Training(Overlap overlap, std::size_t devices, bool adam, SyncOptions options = {}, Reader reader = Reader::detached)
      : in_backward(overlap == Overlap::in_backward) {
    options.overlap = overlap;
    sync = std::make_unique<GradientSync>(test_devices(devices), options);
    Tangled model;
    model.reader = reader;
    replicas = sync->replicate(model);
    for (std::size_t d = 0; d < devices; ++d) {
      optimizers.push_back(optimizer_for(replicas[d], adam));
      sync->attach(device(d), *optimizers[d]);
    }
  }
  Tensor loss(std::size_t d, int i) const {
    const Tensor x(Array::full({4}, 0.1 * i + 0.3 * static_cast<double>(d), DType::f64, device(d)));
    return replicas[d].loss(x, (static_cast<int>(d) + i) % 2 == 0);
  }
  void apply(std::size_t d) {
    if (in_backward) return;
    optimizers[d]->step();
    optimizers[d]->zero_grad();
  }
  void step(std::size_t d, int i) {
    auto step = sync->step(device(d), 1.0 + static_cast<double>(d));
    step.backward(loss(d, i));
    apply(d);
  }
  // Device by device on one thread: the last one's gradients complete the reductions while its backward runs.
  void step_all(int i) {
    std::vector<Step> steps;
    std::vector<Step*> all;
    for (std::size_t d = 0; d < replicas.size(); ++d)
      steps.push_back(sync->step(device(d), 1.0 + static_cast<double>(d)));
    for (std::size_t d = 0; d < replicas.size(); ++d) steps[d].backward_async(loss(d, i));
    for (Step& step : steps) all.push_back(&step);
    join_all(std::span<Step*>(all));
    for (std::size_t d = 0; d < replicas.size(); ++d) apply(d);
  }
  CountingSgd& counting(std::size_t d) { return dynamic_cast<CountingSgd&>(*optimizers[d]); }

  std::vector<Values> values() {
    std::vector<Values> values;
    for (Tangled& replica : replicas)
      for (const Tensor& parameter : replica.parameters()) values.push_back(parameter.to_vector<double>());
    return values;
  }
  bool in_backward;
  std::unique_ptr<GradientSync> sync;
  std::vector<Tangled> replicas;
  std::vector<std::unique_ptr<Optimizer>> optimizers;
};

bool is_inline() { return test_device().kind != DeviceKind::cuda && !environment_switch("TUTTI_CPU_ASYNC"); }

}  // namespace

TEST_CASE("in_backward: bitwise the immediate trajectory, on threads, with branches and shared parameters") {
  for (const std::size_t devices : {1, 2, 3})
    for (const bool adam : {false, true})
      for (const std::size_t bucket_bytes : {0, 65536}) {
        CAPTURE(devices);
        CAPTURE(adam);
        const SyncOptions options{.bucket_bytes = bucket_bytes, .consistency_every = 1};
        Training immediate(Overlap::immediate, devices, adam, options);
        Training updated(Overlap::in_backward, devices, adam, options);
        for (Training* training : {&immediate, &updated})
          run_devices(devices, [&](std::size_t d) {
            for (int i = 0; i < 8; ++i) training->step(d, i);
          });
        CHECK(updated.values() == immediate.values());
        CHECK(updated.optimizers[0]->steps() == 8);
        const auto state = updated.optimizers[0]->state();
        CHECK(state.parameters[3].steps == immediate.optimizers[0]->state().parameters[3].steps);
      }
}

TEST_CASE("in_backward: what an earlier layer still reads is not updated under its hands") {
  for (const Reader reader : {Reader::detached, Reader::view, Reader::custom}) {
    CAPTURE(reader);
    Training immediate(Overlap::immediate, 2, false, {.bucket_bytes = 0}, reader);
    Training updated(Overlap::in_backward, 2, false, {.bucket_bytes = 0}, reader);
    for (int i = 0; i < 5; ++i) {
      immediate.step_all(i);
      updated.step_all(i);
      CHECK(updated.values() == immediate.values());
    }
  }
}

TEST_CASE("in_backward: updates happen before backward ends, each parameter's once") {
  Training training(Overlap::in_backward, 2, false, {.bucket_bytes = 0});
  auto first = training.sync->step(test_device());
  auto second = training.sync->step(test_device(1));
  first.backward_async(training.loss(0, 0));
  CHECK(training.counting(0).updates == 0);
  second.backward_async(training.loss(1, 1));
  if (is_inline()) CHECK(training.counting(1).updates == 4);
  join_all(first, second);
  CHECK(training.counting(0).updates == 4);
  CHECK(training.counting(1).updates == 4);
}

TEST_CASE("in_backward: a graph that is kept, or a value that is held, only delays the update to the join") {
  Training training(Overlap::in_backward, 1, false, {.bucket_bytes = 0});
  {
    auto step = training.sync->step(test_device());
    step.backward_async(training.loss(0, 0), {.retain_graph = true});
    CHECK(training.counting(0).updates < 4);
    step.join();
    CHECK(training.counting(0).updates == 4);
  }
  const Tensor held = training.replicas[0].shared.detach();
  auto step = training.sync->step(test_device());
  step.backward_async(training.loss(0, 0));
  if (is_inline()) CHECK(training.counting(0).updates == 7);
  step.join();
  CHECK(training.counting(0).updates == 8);
}

TEST_CASE("in_backward: gradients may be read after the join, and the next step needs no zero_grad") {
  GradientSync sync(test_devices(2), {.reduction = GradientReduction::mean, .overlap = Overlap::in_backward});
  auto replicas = sync.replicate(TwoBranches{});
  std::vector<std::unique_ptr<Sgd>> optimizers;
  for (std::size_t d = 0; d < 2; ++d) {
    optimizers.push_back(std::make_unique<Sgd>(replicas[d].parameters(), 0.5));
    sync.attach(device(d), *optimizers[d]);
  }
  run_devices(2, [&](std::size_t d) {
    for (int i = 1; i <= 3; ++i) {
      auto step = sync.step(device(d));
      step.backward(use(replicas[d].left, i + 2.0 * static_cast<double>(d)));
      CHECK(gradient_of(replicas[d].left) == Values{i + 1.0, i + 1.0});
      CHECK(gradient_of(replicas[d].right).empty());
    }
    auto step = sync.step(device(d), 0.0);
    step.synchronize();
    CHECK(step.skipped());
    CHECK(gradient_of(replicas[d].left).empty());
    CHECK(replicas[d].left.to_vector<double>() == Values{1 - 0.5 * 9, 2 - 0.5 * 9});
    CHECK(optimizers[d]->steps() == 4);
  });
}

TEST_CASE("in_backward: a device that left follows by itself") {
  Training training(Overlap::in_backward, 3, true, {.bucket_bytes = 0});
  run_devices(3, [&](std::size_t d) {
    training.step(d, 0);
    if (d == 1) {
      training.sync->leave(device(1), Follow::yes);
      while (training.sync->follow(device(1))) continue;
      return;
    }
    for (int i = 1; i < 4; ++i) training.step(d, i);
    training.sync->leave(device(d));
  });
  const auto values = training.values();
  for (std::size_t k = 0; k < 4; ++k) {
    CHECK(values[4 + k] == values[k]);
    CHECK(values[8 + k] == values[k]);
  }
  CHECK(training.optimizers[1]->steps() == 4);
}

TEST_CASE("in_backward: a step that failed half applied is made equal by rejoining, optimizer state included") {
  Training training(Overlap::in_backward, 2, false, {.bucket_bytes = 0});
  training.step_all(0);
  const auto before = training.values();
  training.counting(1).fail_at = training.counting(1).updates + 3;
  CHECK_THROWS(training.step_all(1));
  CHECK_THROWS_WITH_AS((void)training.sync->step(test_device()), doctest::Contains(as_tested("cpu:1")), SyncError);
  if (is_inline()) CHECK(training.values() != before);  // two parameters of device 1
  // On asynchronous streams the third update may come with the join, when device 0 has applied the step.
  const auto applied = static_cast<int>(training.optimizers[0]->steps());
  if (is_inline()) CHECK(applied == 1);
  const GradientSync::Rejoining all[] = {{test_device(), applied}, {test_device(1), 1}};
  training.sync->rejoin_all(all);

  Training undisturbed(Overlap::immediate, 2, false, {.bucket_bytes = 0});
  for (int i = 0; i < applied; ++i) undisturbed.step_all(i);
  CHECK(training.values() == undisturbed.values());
  for (int i = applied; i < 5; ++i) {
    undisturbed.step_all(i);
    training.step_all(i);
  }
  CHECK(training.values() == undisturbed.values());
}

TEST_CASE("in_backward: a device that throws in mid-backward fails all, and training goes on after rejoin") {
  Training training(Overlap::in_backward, 3, true, {.bucket_bytes = 0, .consistency_every = 1});
  const auto errors = errors_of_devices(3, [&](std::size_t d) {
    training.step(d, 0);
    auto step = training.sync->step(device(d));
    Tensor loss = training.loss(d, 1);
    if (d == 2)
      loss = loss + custom_function(
                        "burning", {training.replicas[d].early},
                        [](auto in) { return Array::zeros({}, DType::f64, in[0].device()); },
                        [](auto, const Array&, const Array&) -> std::vector<Array> {
                          throw std::runtime_error("backward burnt");
                        });
    step.backward(loss);
  });
  for (const std::string& error : errors) CHECK_MESSAGE(error.find("backward burnt") != std::string::npos, error);
  run_devices(3, [&](std::size_t d) {
    training.sync->rejoin(device(d), training.optimizers[d]->steps());
    for (int i = 1; i < 5; ++i) training.step(d, i);
    training.sync->check_consistency(device(d));
  });
  CHECK(training.optimizers[0]->steps() == 5);
}

TEST_CASE("in_backward: what cannot be combined with it is refused by name") {
  Tangled model;
  GradientSync sync(test_devices(1), {.overlap = Overlap::in_backward});
  Sgd optimizer(model.parameters(), 0.1);
  CHECK_THROWS_WITH_AS(sync.attach(test_device(), optimizer), doctest::Contains("replica before"), SyncError);
  sync.attach(test_device(), model);
  CHECK_THROWS_WITH_AS((void)sync.step(test_device()), doctest::Contains(as_tested("cpu:0 has no optimizer")),
                       SyncError);
  Sgd stranger({Tangled{}.early}, 0.1);
  CHECK_THROWS_WITH_AS(sync.attach(test_device(), stranger), doctest::Contains("none of the replica's"), SyncError);
  sync.attach(test_device(), optimizer);
  Sgd rival({model.late}, 0.1);
  CHECK_THROWS_WITH_AS(sync.attach(test_device(), rival), doctest::Contains("two optimizers"), SyncError);
  auto step = sync.step(test_device());
  CHECK_THROWS_WITH_AS((void)step.no_sync(), doctest::Contains("in_backward"), SyncError);
  step.backward(model.loss(Tensor(Array::full({4}, 0.5, DType::f64, test_device())), true));
  CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains("in_backward"), Error);
  CHECK_THROWS_WITH_AS(clip_grad_norm(model.parameters(), 1.0), doctest::Contains("in_backward"), Error);
  Sgd second(model.parameters(), 0.1);
  CHECK_THROWS_WITH_AS(second.step(), doctest::Contains("\"early\" was updated"), Error);
}

TEST_CASE("in_backward: the optimizer is its owner's again when the group has gone") {
  Tangled model;
  Sgd optimizer(model.parameters(), 0.1);
  {
    GradientSync sync(test_devices(1), {.overlap = Overlap::in_backward});
    sync.attach(test_device(), model);
    sync.attach(test_device(), optimizer);
    CHECK_THROWS_AS(optimizer.step(), Error);
  }
  optimizer.step();
}

TEST_CASE("in_backward: an optimizer that goes before its group, with a step on its way, is not touched") {
  Tangled model;
  GradientSync sync(test_devices(1), {.overlap = Overlap::in_backward});
  sync.attach(test_device(), model);
  const auto optimizer = std::make_unique<CountingSgd>(model.parameters(), 0.1);
  sync.attach(test_device(), *optimizer);
  auto step = sync.step(test_device());
  step.backward_async(model.loss(Tensor(Array::full({4}, 0.5, DType::f64, test_device())), true),
                      {.retain_graph = true});
}

TEST_CASE("in_backward: takes no more memory than the immediate mode") {
  const auto peak = [](Overlap overlap) {
    Generator random(3);
    const Sequential model(Linear(64, 256, random), Linear(256, 256, random), Linear(256, 64, random));
    GradientSync sync(test_devices(2), {.overlap = overlap, .bucket_bytes = 0});
    auto replicas = sync.replicate(model);
    std::vector<std::unique_ptr<Sgd>> optimizers;
    for (std::size_t d = 0; d < 2; ++d) {
      optimizers.push_back(std::make_unique<Sgd>(replicas[d].parameters(), 0.01));
      sync.attach(device(d), *optimizers[d]);
    }
    MemoryPool& pool = memory_pool(test_device(1));
    pool.reset_peak();
    const std::size_t before = pool.statistics().in_use;
    for (int i = 0; i < 3; ++i) {
      auto first = sync.step(test_device());
      auto second = sync.step(test_device(1));
      for (std::size_t d = 0; d < 2; ++d) {
        const Tensor x(Array::full({4, 64}, 0.1, DType::f32, device(d)));
        (d == 0 ? first : second).backward_async(sum(square(replicas[d].forward(x))));
      }
      join_all(first, second);
      if (overlap == Overlap::immediate)
        for (auto& optimizer : optimizers) optimizer->step(), optimizer->zero_grad();
    }
    return pool.statistics().peak_in_use - before;
  };
  // With asynchronous streams the host runs ahead and holds more or fewer activations, all less than the least weight.
  const std::size_t ahead = is_inline() ? 0 : 64 * 256 * sizeof(float) - 1;
  CHECK(peak(Overlap::in_backward) <= peak(Overlap::immediate) + ahead);
}
