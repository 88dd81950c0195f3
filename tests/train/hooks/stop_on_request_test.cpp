// SPDX-License-Identifier: Apache-2.0
// A program with threads of its own, which trains in the background, hears of progress and cancels.
#include <tutti/distributed/gradient_sync.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/train/linear_training.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/stop_on_request.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

/// Trains on so many devices, on a thread of its own from `start` on.
class Training {
 public:
  Training(std::size_t devices, std::stop_token token)
      : request(std::make_shared<StopOnRequest>(std::move(token))),
        last_(test_device(devices - 1)),
        learner(linear_network(),
                {.optimizer = [](Linear& replica) { return std::make_unique<Sgd>(replica.parameters(), 0.1); },
                 .data =
                     [](std::size_t d) {
                       return std::make_unique<ListStream>(std::vector{random_batch(4, d, test_device(d))});
                     },
                 .losses =
                     [this](Linear& model, const Batch& b) {
                       while (hangs && b.inputs.device() == last_) std::this_thread::yield();
                       return linear_losses(model, b);
                     }},
                {.devices = test_devices(devices)}) {
    learner.main().register_hooks(
        {request, std::make_shared<CallbackHook>(Callbacks{
                      .after_step = [this](Trainer&, const StepReport& report) { progress = report.global_step; }})});
    for (std::size_t d = 0; d < devices; ++d) learner.trainer(d).set_log([](std::string_view) {});
  }
  void start() {
    thread_ = std::thread([this] {
      try {
        learner.train({});
      } catch (...) {
        error = std::current_exception();
      }
    });
  }
  void wait_for_step(std::int64_t step) const {
    while (progress.load() < step) std::this_thread::yield();
  }
  void join() { thread_.join(); }

  std::atomic<std::int64_t> progress{0};
  std::atomic<bool> hangs{false};
  std::exception_ptr error;
  std::shared_ptr<StopOnRequest> request;

 private:
  Device last_;

 public:
  LinearLearner learner;

 private:
  std::thread thread_;
};

}  // namespace

TEST_CASE("StopOnRequest: a program cancels a training in the background, on all devices before one step") {
  for (const std::size_t devices : {1U, 2U, 3U}) {
    CAPTURE(devices);
    std::stop_source source;
    Training training(devices, source.get_token());
    training.start();
    training.wait_for_step(3);
    CHECK(source.request_stop());
    training.join();
    CHECK_FALSE(training.error);
    CHECK(training.request->stopped());
    for (std::size_t d = 0; d < devices; ++d) {
      CHECK(training.learner.trainer(d).completed());
      CHECK(training.learner.trainer(d).stop_reason() == "the program asked for an end");
      CHECK(training.learner.trainer(d).iteration() == training.learner.main().iteration());
    }
    CHECK(training.learner.main().iteration() == training.progress);
  }
}

TEST_CASE("StopOnRequest: several trainings, each in a group of its own, end by one token") {
  std::stop_source source;
  std::vector<std::unique_ptr<Training>> all;
  for (const std::size_t devices : {1U, 2U, 2U}) {
    all.push_back(std::make_unique<Training>(devices, source.get_token()));
    all.back()->start();
  }
  for (const auto& each : all) each->wait_for_step(2);
  source.request_stop();
  for (const auto& each : all) {
    each->join();
    CHECK_FALSE(each->error);
    CHECK(each->request->stopped());
  }
}

TEST_CASE("StopOnRequest: a request from before, and a token without one") {
  std::stop_source source;
  source.request_stop();
  for (const std::size_t devices : {1U, 2U}) {
    CAPTURE(devices);
    Training training(devices, source.get_token());
    training.learner.train({.steps = 50});
    CHECK(training.request->stopped());
    CHECK(training.learner.main().iteration() <= 2);
  }
  Training training(2, {});
  training.learner.train({.steps = 5});
  CHECK(training.learner.main().iteration() == 5);
  CHECK_FALSE(training.request->stopped());
}

TEST_CASE("StopOnRequest: a wait for a device that hangs ends when the program closes the group") {
  std::stop_source source;
  Training training(2, source.get_token());
  training.start();
  training.wait_for_step(2);
  training.hangs = true;
  source.request_stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  training.learner.sync().close();
  training.hangs = false;  // threads cannot be ended from outside: the program lets its own go on
  training.join();
  // The step that was running may have been the last, before the group was closed.
  CHECK((training.error != nullptr || training.request->stopped()));
}

TEST_SUITE_END();
