// SPDX-License-Identifier: Apache-2.0
// Overlap::double_buffered in groups of several processes, which here are threads of one.
#include <tutti/backend/error.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/tests/distributed/processes/process_threads.h>
#include <tutti/tests/distributed/sharded/sharded_training.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kDevices = 4;
const std::vector<std::vector<std::uint32_t>> kSplits{{2, 2}, {1, 1, 1, 1}, {1, 3}};

SyncOptions late() {
  SyncOptions options;
  options.overlap = Overlap::double_buffered;
  options.bucket_bytes = 256;  // several buckets
  return options;
}

/// One device of a training, as its thread drives it.
struct Part {
  GradientSync& sync;
  Branching& replica;
  Optimizer& optimizer;
  std::size_t number;

  Device device() const { return cpu(static_cast<std::uint16_t>(number)); }
  void train(int first, int last) const {
    for (int i = first; i < last; ++i) {
      optimizer.zero_grad();
      auto step = sync.step(device(), Branching::weight(i, device()));
      step.backward(replica.loss(i, device()));
      optimizer.step();
    }
  }
  /// Applies the gradients that are on their way.
  void finish() const {
    CHECK(sync.flush(device()));
    optimizer.step();
  }
};
using Work = std::function<void(const Part&)>;

void run_rank(GradientSync& sync, std::size_t first, std::vector<std::string>& errors, const Work& work) {
  auto replicas = sync.replicate(Branching{});
  const auto own = errors_of_devices(replicas.size(), [&](std::size_t place) {
    const auto optimizer = sgd()(replicas[place].parameters());
    work({sync, replicas[place], *optimizer, first + place});
  });
  std::ranges::copy(own, errors.begin() + static_cast<std::ptrdiff_t>(first));
}

/// What each device threw; a split of none is one process without others.
std::vector<std::string> run(const std::vector<std::uint32_t>& split, const SyncOptions& options, const Work& work,
                             bool connects = false) {
  std::vector<std::string> errors(kDevices);
  if (split.empty()) {
    GradientSync sync({cpu(0), cpu(1), cpu(2), cpu(3)}, options);
    run_rank(sync, 0, errors, work);
    return errors;
  }
  ProcessThreads group(split, connects);
  const auto of_ranks = group.run(
      options, [&](std::size_t rank, GradientSync& sync) { run_rank(sync, group.first_of(rank), errors, work); });
  for (const std::string& error : of_ranks) CHECK(error == "");
  return errors;
}

using Values = std::vector<float>;

/// Parameters of device 0 after so many steps, of which the last is applied or not.
Values trained(const std::vector<std::uint32_t>& split, const SyncOptions& options, int steps, bool all,
               bool connects = false) {
  Values values;
  const auto errors = run(
      split, options,
      [&](const Part& part) {
        part.train(0, steps);
        if (all) part.finish();
        if (all) part.sync.leave(part.device());
        if (part.number == 0) values = values_of(part.replica);
        part.sync.barrier(part.device());  // none closes its group before all are done
      },
      connects);
  for (const std::string& error : errors) CHECK(error == "");
  return values;
}

}  // namespace

TEST_CASE("several_processes, double buffering: the bits of one process, in any split, over both engines") {
  for (const Absent absent : {Absent::zero, Absent::subset}) {
    SyncOptions options = late();
    options.absent = absent;
    const Values expected = trained({}, options, 24, true);
    for (const auto& split : kSplits) CHECK(trained(split, options, 24, true) == expected);
    CHECK(trained({2, 2}, options, 24, true, true) == expected);
  }
}

TEST_CASE("several_processes, double buffering: the next forward runs while another process still computes") {
  std::atomic<bool> ahead{false};
  const auto errors = run({1, 3}, late(), [&](const Part& part) {
    if (part.number == 0) {
      part.train(1, 2);
      static_cast<void>(part.replica.loss(2, part.device()));  // before the others have done anything in the first step
      ahead = true;
    }
    while (!ahead) std::this_thread::yield();
    part.train(part.number == 0 ? 2 : 1, 3);
    part.finish();
    part.sync.leave(part.device());
  });
  for (const std::string& error : errors) CHECK(error == "");
}

// The step before the one that fails was committed, and may be applied; the one that fails is applied nowhere.
// One process asks before the others' step is released, another one after it.
TEST_CASE("several_processes, double buffering: replicas are compared, though not all have released the step before") {
  for (const std::string& error : run({1, 1, 1, 1}, late(), [](const Part& part) {
         for (int i = 0; i < 4; ++i) {
           part.train(i, i + 1);
           if (part.number == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
           part.sync.check_consistency(part.device());
         }
         part.finish();
         part.sync.leave(part.device());
       }))
    CHECK(error == "");
}

TEST_CASE("several_processes, double buffering: a backward that fails in one process fails its step in all") {
  const Values before = trained({}, late(), 6, false);  // five applied
  const Values without = trained({}, late(), 5, false);
  for (const auto& split : kSplits) {
    const auto errors = run(split, late(), [&](const Part& part) {
      part.train(0, 5);
      CHECK(values_of(part.replica) == without);
      part.optimizer.zero_grad();
      if (part.number == 3) {
        auto step = part.sync.step(part.device(), 1.0);
        step.fail(std::make_exception_ptr(std::runtime_error("the disk is full")));
        CHECK(values_of(part.replica) == without);
        throw std::runtime_error("the disk is full");
      }
      try {
        part.train(5, 6);  // its own backward may hear of it already
        CHECK(values_of(part.replica) == before);
      } catch (const SyncError&) {
        CHECK(values_of(part.replica) == without);
        throw;
      }
      CHECK_THROWS_WITH_AS(part.sync.flush(part.device()), doctest::Contains("cpu:3 failed in generation 6"),
                           SyncError);
      part.train(6, 7);
    });
    for (std::size_t d = 0; d < 3; ++d) {
      CAPTURE(errors[d]);
      CHECK(errors[d].find("cpu:3 failed in generation 6: the disk is full") != std::string::npos);
    }
  }
}

TEST_CASE("several_processes, double buffering: a process that closes its group with gradients on their way is named") {
  for (int i = 0; i < 20; ++i) {
    const auto errors = run({1, 3}, late(), [](const Part& part) {
      part.train(1, part.number == 0 ? 4 : 6);  // no flush
      if (part.number > 0) static_cast<void>(part.sync.flush(part.device()));
    });
    CHECK(errors[0] == "");
    for (std::size_t d = 1; d < kDevices; ++d) {
      CAPTURE(errors[d]);
      CHECK(errors[d].find("rank 0 ") != std::string::npos);
    }
  }
}

TEST_SUITE_END();
