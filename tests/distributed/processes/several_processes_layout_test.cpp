// SPDX-License-Identifier: Apache-2.0
// Of several processes rank 0 learns the order in which gradients become final, and all take it at once.
#include <tutti/autodiff/operations.h>
#include <tutti/distributed/sync_report.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/module.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/processes/process_threads.h>

#include <doctest/doctest.h>

#include <string>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr int kSteps = 9;
constexpr std::size_t kDevices = 4;

/// Three layers, declared in the order in which forward calls none of them.
struct Shuffled : Module {
  explicit Shuffled(Generator random) : second(6, 6, random), third(6, 6, random), first(6, 6, random) {}
  void visit(MemberVisitor& v) override {
    v.module("second", second);
    v.module("third", third);
    v.module("first", first);
  }
  /// `turned`: the other way round.
  Tensor forward(const Tensor& x, bool turned) const {
    return turned ? first.forward(tanh(second.forward(tanh(third.forward(x)))))
                  : third.forward(tanh(second.forward(tanh(first.forward(x)))));
  }
  Linear second;
  Linear third;
  Linear first;
};

void train(GradientSync& sync, std::vector<Shuffled>& replicas, std::size_t first, int turns_after,
           std::vector<std::vector<float>>& parameters) {
  run_devices(replicas.size(), [&](std::size_t d) {
    const Device device = sync.devices()[d];
    Sgd optimizer(replicas[d].parameters(), 0.05, {.momentum = 0.9});
    for (int i = 0; i < kSteps; ++i) {
      Generator random(99, static_cast<std::uint64_t>(i) * kDevices + first + d);
      const Tensor x(random.normal({3, 6}, DType::f32, device));
      optimizer.zero_grad();
      auto step = sync.step(device, 3.0);
      const Tensor y = replicas[d].forward(x, i >= turns_after);
      step.backward(mean(y * y));
      optimizer.step();
    }
    if (sync.server().options().overlap == Overlap::double_buffered && sync.flush(device)) optimizer.step();
    for (const Tensor& parameter : replicas[d].parameters())
      for (const float value : parameter.to_vector<float>()) parameters[first + d].push_back(value);
  });
}

/// The weights of a step in the order of their reductions.
std::string order_of(const SyncReport& report, std::size_t step) {
  std::string order;
  for (const auto& reduction : report.steps.at(step).reductions) {
    const std::string& name = report.parameters[reduction.parameter.value];
    if (name.ends_with(".weight")) order += name.substr(0, 1);
  }
  return order;
}

using ByDevice = std::vector<std::vector<float>>;

ByDevice trained_alone(int turns_after) {
  ByDevice parameters(kDevices);
  GradientSync sync({cpu(0), cpu(1), cpu(2), cpu(3)}, {.bucket_bytes = 0});
  auto replicas = sync.replicate(Shuffled(Generator(3)));
  train(sync, replicas, 0, turns_after, parameters);
  return parameters;
}

}  // namespace

TEST_CASE("several_processes, layout: all take the order that rank 0 has learned, after the same step") {
  const ByDevice expected = trained_alone(kSteps);
  for (const bool connects : {false, true})
    for (const std::vector<std::uint32_t>& split : {std::vector<std::uint32_t>{2, 2}, {1, 3}, {1, 1, 1, 1}}) {
      CAPTURE(split.size());
      ProcessThreads group(split, connects);
      ByDevice parameters(kDevices);
      std::vector<SyncReport> reports(split.size());
      const auto errors = group.run({.bucket_bytes = 0}, [&](std::size_t rank, GradientSync& sync) {
        auto replicas = sync.replicate(Shuffled(Generator(3)));
        train(sync, replicas, group.first_of(rank), kSteps, parameters);
        reports[rank] = sync.report();
      });
      for (const std::string& error : errors) CHECK(error == "");
      for (const SyncReport& report : reports) {
        REQUIRE(report.steps.size() == kSteps);
        for (std::size_t step = 0; step < kSteps; ++step) CHECK(order_of(report, step) == (step < 2 ? "fts" : "tsf"));
      }
      CHECK(parameters == expected);
    }
}

TEST_CASE("several_processes, layout: they follow another order when three steps have had it") {
  constexpr int kTurns = 3;
  const ByDevice expected = trained_alone(kTurns);
  ProcessThreads group({2, 2});
  ByDevice parameters(kDevices);
  std::vector<SyncReport> reports(2);
  const auto errors = group.run({.bucket_bytes = 0}, [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Shuffled(Generator(3)));
    train(sync, replicas, group.first_of(rank), kTurns, parameters);
    reports[rank] = sync.report();
  });
  for (const std::string& error : errors) CHECK(error == "");
  for (const SyncReport& report : reports)
    for (std::size_t step = 0; step < kSteps; ++step)
      CHECK(order_of(report, step) == (step < 2 ? "fts" : step < 7 ? "tsf" : "fst"));
  CHECK(parameters == expected);
}

TEST_CASE("several_processes, layout: with double buffering it stays") {
  ProcessThreads group({1, 1});
  ByDevice parameters(kDevices);
  std::vector<SyncReport> reports(2);
  const auto errors =
      group.run({.overlap = Overlap::double_buffered, .bucket_bytes = 0}, [&](std::size_t rank, GradientSync& sync) {
        auto replicas = sync.replicate(Shuffled(Generator(3)));
        train(sync, replicas, group.first_of(rank), kSteps, parameters);
        reports[rank] = sync.report();
      });
  for (const std::string& error : errors) CHECK(error == "");
  for (const SyncReport& report : reports)
    for (std::size_t step = 0; step < report.steps.size(); ++step) CHECK(order_of(report, step) == "fts");
}

TEST_SUITE_END();
