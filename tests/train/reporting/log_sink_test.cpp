// SPDX-License-Identifier: Apache-2.0
// What a training says where the program has a log sink.
#include <tutti/backend/log.h>
#include <tutti/backend/progress.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/train/linear_training.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/progress_bar.h>
#include <tutti/train/hooks/stop_on_interrupt.h>
#include <tutti/train/reporting/console_writer.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

/// A sink that keeps what it gets, for as long as this lives.
class Kept {
 public:
  explicit Kept(bool throws = false) {
    set_log_sink([this, throws](LogLevel level, std::string_view text) {
      const std::lock_guard lock(mutex_);
      constexpr const char* kNames[] = {"info: ", "warning: ", "error: "};
      lines_.push_back(kNames[static_cast<std::size_t>(level)] + std::string(text));
      if (throws) throw std::runtime_error("the host's log is full");
    });
  }
  ~Kept() { set_log_sink({}); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  bool has(const std::string& begin) const {
    const auto all = lines();
    return std::ranges::any_of(all, [&](const std::string& line) { return line.starts_with(begin); });
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

LinearLearner::Parts parts() {
  return {
      .optimizer = [](Linear& replica) { return std::make_unique<Sgd>(replica.parameters(), 0.1); },
      .data =
          [](std::size_t d) { return std::make_unique<ListStream>(std::vector{random_batch(4, d, test_device(d))}); },
      .losses = linear_losses};
}

}  // namespace

TEST_CASE("log sink: progress and the console are lines of level info") {
  const Kept kept;
  ProgressOptions::Clock::time_point now{};
  Progress progress(2, {.label = "epoch 1/2", .terminal = true, .now = [&] { return now; }});
  progress.update({.step = 1, .loss = 2.0});
  progress.print("between");
  progress.hide();
  now += std::chrono::seconds(3);
  progress.update({.step = 2, .loss = 1.0});
  progress.finish();
  EventStorage storage;
  storage.put_scalar("total_loss", 0.5);
  ConsoleWriter().write(storage);
  CHECK(kept.lines() == std::vector<std::string>{"info: between", "info: epoch 1/2  step 2/2  loss 1.0000  in 00:03",
                                                 "info: iteration 0  total_loss 0.5"});
}

TEST_CASE("log sink: a training's errors, and the signal that ends it") {
  for (const bool throws : {false, true}) {
    const Kept kept(throws);
    LinearLearner learner(linear_network(), parts(), {.devices = test_devices(1)});
    bool breaks = false;
    learner.main().register_hooks(
        {std::make_shared<StopOnInterrupt>(), std::make_shared<ProgressBar>(),
         std::make_shared<CallbackHook>(Callbacks{.after_step = [&](Trainer&, const StepReport& report) {
           if (breaks) throw std::runtime_error("burnt");
           if (report.global_step == 3) std::raise(SIGINT);
         }})});
    learner.train({.steps = 100});
    CHECK(learner.main().iteration() < 100);
    CHECK(kept.has("info: interrupted: training ends after this step; Ctrl-C once more ends it at once"));
    breaks = true;
    CHECK_THROWS_WITH(learner.train({.steps = 100}), "burnt");
    CHECK(kept.has("error: training"));
  }
}

TEST_CASE("log sink: a signal that is confirmed on a file is so at once, and not told to the sink") {
  const Kept kept;
  LinearLearner learner(linear_network(), parts(), {.devices = test_devices(1)});
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  REQUIRE(file != nullptr);
  long at_once = 0;
  learner.main().register_hooks({std::make_shared<CallbackHook>(Callbacks{.after_step =
                                                                              [&](Trainer&, const StepReport& report) {
                                                                                if (report.global_step != 3) return;
                                                                                std::raise(SIGINT);
                                                                                std::fseek(file.get(), 0, SEEK_END);
                                                                                at_once = std::ftell(file.get());
                                                                              }}),
                                 std::make_shared<StopOnInterrupt>(file.get())});
  learner.train({.steps = 100});
  CHECK(learner.main().iteration() < 100);
  CHECK(at_once > 20);
  CHECK_FALSE(kept.has("info: interrupted"));
}

TEST_SUITE_END();
