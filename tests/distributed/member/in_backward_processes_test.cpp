// SPDX-License-Identifier: Apache-2.0
// Overlap::in_backward in groups of several processes, which here are threads of one: every step is bitwise that of the
// immediate mode in one process.
#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/embedding.h>
#include <tutti/nn/linear.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/processes/process_threads.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kDevices = 4;
constexpr int kSteps = 8;

Device device(std::size_t number) { return cpu(static_cast<std::uint16_t>(number)); }

/// Layers of several buckets, and a branch that not all steps take.
struct Model : Module {
  explicit Model(bool has_sparse) : sparse(has_sparse), words(30, 8, random, {.sparse = has_sparse}) {}
  Tensor loss(const Tensor& tokens, bool branches) const {
    Tensor x = words.forward(tokens);
    if (burns)
      x = custom_function(
          "burning", {x}, [](std::span<const Array> in) { return in[0].copy(); },
          [this](std::span<const Array>, const Array&, const Array&) -> std::vector<Array> {
            burns();
            throw std::runtime_error("backward burnt");
          });
    x = tanh(hidden.forward(x));
    if (branches) x = x + branch.forward(x);
    return mean(square(output.forward(x) - 1.0));
  }
  void visit(MemberVisitor& v) override {
    v.module("words", words);
    v.module("hidden", hidden);
    v.module("branch", branch);
    v.module("output", output);
  }
  bool sparse;
  Generator random{5};
  Embedding words;
  Linear hidden{8, 16, random};
  Linear branch{16, 16, random};
  Linear output{16, 3, random};
  std::function<void()> burns;  // called in backward when the gradients of all but `words` are there, which then fails
};

/// One device of a training, as its thread drives it.
struct Part {
  Part(GradientSync& group, Model& replica, std::size_t of, bool adam, bool attaches = true)
      : sync(group), model(replica), number(of), in_backward(attaches) {
    if (adam)
      optimizer = std::make_unique<AdamW>(model.parameters(), 0.01);
    else
      optimizer = std::make_unique<Sgd>(model.parameters(), 0.05, SgdOptions{.momentum = model.sparse ? 0.0 : 0.9});
    if (in_backward) sync.attach(device(number), *optimizer);
  }
  Tensor loss(int i) const {
    Generator draws(13, static_cast<std::uint64_t>(i) * kDevices + number);
    std::vector<std::int64_t> tokens;
    for (std::size_t t = 0; t < 3 + number; ++t) tokens.push_back(static_cast<std::int64_t>(draws.below(30)));
    const bool branches = (number + static_cast<std::size_t>(i)) % 3 != 0;
    return model.loss(Tensor(Array::from(tokens, {std::ssize(tokens)}, device(number))), branches);
  }
  void apply() const {
    if (in_backward) return;
    optimizer->step();
    optimizer->zero_grad();
  }
  void train(int first, int last) const {
    for (int i = first; i < last; ++i) {
      sync.step(device(number), static_cast<double>(3 + number), [&](Step& step) { step.backward(loss(i)); });
      apply();
    }
  }
  std::vector<float> values() const {
    std::vector<float> values;
    for (const Tensor& parameter : model.parameters())
      for (const float value : parameter.array().to_vector<float>()) values.push_back(value);
    return values;
  }

  GradientSync& sync;
  Model& model;
  std::size_t number;
  bool in_backward;
  std::unique_ptr<Optimizer> optimizer;
};

SyncOptions options_with(Overlap overlap) {
  SyncOptions options;
  options.overlap = overlap;
  options.bucket_bytes = 256;
  return options;
}

struct Plan {
  bool sparse = false;
  bool adam = false;
  /// Steps of a device before it follows; all by default.
  std::function<int(std::size_t number)> steps = [](std::size_t) { return kSteps; };
};

std::vector<float> trained(const Part& part, const Plan& plan) {
  part.train(0, plan.steps(part.number));
  part.sync.leave(device(part.number), Follow::yes);
  while (part.sync.follow(device(part.number))) part.apply();
  return part.values();
}

std::vector<std::vector<float>> immediately(const Plan& plan) {
  GradientSync sync({cpu(0), cpu(1), cpu(2), cpu(3)}, options_with(Overlap::immediate));
  auto replicas = sync.replicate(Model(plan.sparse));
  std::vector<std::vector<float>> values(kDevices);
  run_devices(kDevices, [&](std::size_t number) {
    values[number] = trained({sync, replicas[number], number, plan.adam, false}, plan);
  });
  return values;
}

void check_all_splits(const Plan& plan) {
  const auto expected = immediately(plan);
  for (const bool connects : {false, true})
    for (const auto& split : {std::vector<std::uint32_t>{2, 2}, {1, 1, 1, 1}, {1, 3}, {3, 1}}) {
      CAPTURE(connects);
      CAPTURE(split);
      ProcessThreads group(split, connects);
      std::vector<std::vector<float>> values(kDevices);
      const auto errors = group.run(options_with(Overlap::in_backward), [&](std::size_t rank, GradientSync& sync) {
        auto replicas = sync.replicate(Model(plan.sparse));
        std::vector<std::unique_ptr<Part>> parts;
        for (std::size_t place = 0; place < split[rank]; ++place)
          parts.push_back(std::make_unique<Part>(sync, replicas[place], group.first_of(rank) + place, plan.adam));
        run_devices(split[rank],
                    [&](std::size_t place) { values[parts[place]->number] = trained(*parts[place], plan); });
      });
      for (const std::string& error : errors) CHECK(error == "");
      CHECK(values == expected);
    }
}

}  // namespace

TEST_CASE("in_backward, several processes: bitwise the immediate trajectory of one process, in any split") {
  for (const bool adam : {false, true}) check_all_splits({.adam = adam});
  check_all_splits({.sparse = true});
}

TEST_CASE("in_backward, several processes: a device that left is updated as it follows") {
  check_all_splits({.adam = true, .steps = [](std::size_t number) { return static_cast<int>(2 * number); }});
}

TEST_CASE("in_backward, several processes: of a step that fails all are told that parameters may hold it in part") {
  for (const bool connects : {false, true}) {
    ProcessThreads group({1, 1}, connects);
    const auto errors = group.run(options_with(Overlap::in_backward), [&](std::size_t rank, GradientSync& sync) {
      auto replicas = sync.replicate(Model(false));
      const Part part(sync, replicas[0], rank, false);
      part.train(0, 3);  // then gradients lie in the order in which they are made
      const auto launches = [&] {
        const std::string events = sync.recent_events();
        std::size_t found = 0;
        for (auto at = events.find("launch"); at != std::string::npos; at = events.find("launch", at + 1)) ++found;
        return found;
      };
      const std::size_t before = launches();
      if (rank == 1)
        replicas[0].burns = [&] {  // what has been launched may be in the other's parameters
          for (int i = 0; i < 1000 && launches() == before; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        };
      part.train(3, 4);
    });
    CAPTURE(errors[0]);
    CAPTURE(errors[1]);
    CHECK(errors[0].find("rank 1 cpu:1 failed in generation 4: backward burnt; with Overlap::in_backward parameters "
                         "may hold that step in part: load a checkpoint") != std::string::npos);
    CHECK(errors[1].find("backward burnt") != std::string::npos);
  }
}

TEST_CASE("in_backward, several processes: who has no optimizer for a parameter that another updates is told so") {
  ProcessThreads group({1, 1});
  const auto errors = group.run(options_with(Overlap::in_backward), [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Model(false));
    Sgd some(rank == 0 ? replicas[0].parameters() : replicas[0].output.parameters(), 0.1);
    sync.attach(device(rank), some);
    sync.step(device(rank), 1, [&](Step& step) {
      step.backward(replicas[0].loss(Tensor(Array::from(std::vector<std::int64_t>{1, 2}, {2}, device(rank))), true));
    });
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("whether Overlap::in_backward updates parameter \"words.weight\" is not the same on rank 1") !=
          std::string::npos);
  }
}

TEST_SUITE_END();
