// SPDX-License-Identifier: Apache-2.0
// Groups whose SyncOptions::cancel is asked to stop.
#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/processes/process_threads.h>
#include <tutti/tests/distributed/two_branches.h>

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <stop_token>
#include <string>
#include <thread>

TEST_SUITE_BEGIN("cpu");

namespace tutti::testing {
namespace {

void take_step(GradientSync& sync, TwoBranches& replica, Device device) {
  replica.zero_grad();
  auto step = sync.step(device);
  step.backward(use(replica.left, 1) + use(replica.right, 2));
  (void)gradient_of(replica.left);
}

TEST_CASE("cancel: whoever waits for a device that hangs is told at once, and the group is over") {
  std::stop_source source;
  GradientSync sync({cpu(0), cpu(1)}, {.cancel = source.get_token()});
  auto replicas = sync.replicate(TwoBranches());
  std::promise<void> released;
  const auto hangs = released.get_future().share();
  std::promise<void> stepped;
  const auto asks = std::async(std::launch::async, [&] {
    stepped.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // device 0 waits, or does so after
    source.request_stop();
  });
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    const Device device = cpu(static_cast<std::uint16_t>(d));
    take_step(sync, replicas[d], device);
    if (d == 1) {
      stepped.set_value();
      hangs.wait();
    }
    try {
      take_step(sync, replicas[d], device);
    } catch (...) {
      if (d == 0) released.set_value();
      throw;
    }
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("[sync] the group was cancelled in generation 2 (SyncOptions::cancel)") != std::string::npos);
  }
  CHECK_THROWS_WITH_AS(sync.rejoin(cpu(0), 1), doctest::Contains("the group is closed: cpu:0 cannot rejoin"),
                       SyncError);
}

TEST_CASE("cancel: collectives of a group without a model, and tokens that were asked before") {
  for (const bool before : {false, true}) {
    CAPTURE(before);
    std::stop_source source;
    if (before) source.request_stop();
    GradientSync sync({cpu(0), cpu(1)}, {.cancel = source.get_token()});
    auto waits = std::async(std::launch::async, [&] { sync.barrier(cpu(0)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    source.request_stop();
    CHECK_THROWS_WITH_AS(waits.get(), doctest::Contains("the group was cancelled"), SyncError);
  }
}

TEST_CASE("cancel: after the group's end a request changes nothing") {
  std::stop_source source;
  {
    GradientSync sync({cpu(0)}, {.cancel = source.get_token()});
    auto replicas = sync.replicate(TwoBranches());
    take_step(sync, replicas[0], cpu(0));
  }
  source.request_stop();
}

TEST_CASE("cancel: other processes are told which one was cancelled, whatever they wait for") {
  for (const bool in_collective : {false, true}) {
    CAPTURE(in_collective);
    std::stop_source source;
    ProcessThreads group({1, 1});
    const auto errors = group.run_each(
        [&](std::size_t rank) { return rank == 1 ? SyncOptions{.cancel = source.get_token()} : SyncOptions{}; },
        [&](std::size_t rank, GradientSync& sync) {
          const Device device = cpu(static_cast<std::uint16_t>(rank));
          auto replicas = sync.replicate(TwoBranches());
          take_step(sync, replicas[0], device);
          if (rank == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));  // rank 0 waits, or does so after
            source.request_stop();
          }
          if (in_collective)
            sync.barrier(device);
          else
            take_step(sync, replicas[0], device);
        });
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find("rank 1 was cancelled in generation 2 (SyncOptions::cancel)") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tutti::testing

TEST_SUITE_END();
