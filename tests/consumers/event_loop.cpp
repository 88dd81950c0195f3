// SPDX-License-Identifier: Apache-2.0
// A program of somebody else with an event loop of its own: it trains in the background, shows how far that is, keeps
// what the library says in its own log, and cancels the training. The loop never waits for it.
#include <tutti/backend/log.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/stop_on_request.h>
#include <tutti/tutti.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace tutti;

namespace {

/// Runs what any thread posts, on the thread that calls `run`.
class EventLoop {
 public:
  EventLoop() : wake_(eventfd(0, EFD_CLOEXEC)) {}
  ~EventLoop() { close(wake_); }
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void post(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(wake_, &one, sizeof one);
  }
  void run() {
    while (!ended_) {
      pollfd events{wake_, POLLIN, 0};  // and the program's own, sockets and timers
      if (poll(&events, 1, 60'000) <= 0) throw std::runtime_error("nothing happened for a minute");
      std::uint64_t count = 0;
      [[maybe_unused]] const auto got = read(wake_, &count, sizeof count);
      for (auto& task : taken()) task();
    }
  }
  void end() { ended_ = true; }

 private:
  std::vector<std::function<void()>> taken() {
    const std::lock_guard lock(mutex_);
    return std::exchange(tasks_, {});
  }

  int wake_;
  bool ended_ = false;
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
};

struct Classifier : Layer {
  explicit Classifier(Generator& random) : hidden(8, 32, random), output(32, 2, random) {}
  Tensor compute(const Tensor& x) const override { return output(relu(hidden(x))); }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("output", output);
  }
  Linear hidden, output;
};

Examples points() {
  Generator random(1);
  const Tensor x(random.normal({512, 8}, DType::f32, cpu(0)));
  return {x.array(), (sum(x, 1) > 0.0).cast(DType::i64).array()};
}

/// Trains on a thread of its own until it is told to stop. What the caller gives is called on that thread.
class BackgroundTraining {
 public:
  struct Callbacks {
    std::function<void(std::int64_t step, double loss)> progress;
    std::function<void(std::string how, std::int64_t steps)> ended;
  };

  explicit BackgroundTraining(Callbacks callbacks)
      : callbacks_(std::move(callbacks)), thread_([this](std::stop_token stop) { train(std::move(stop)); }) {}

  void cancel() { thread_.request_stop(); }  ///< returns at once; `ended` is called after the step that runs

 private:
  void train(std::stop_token stop) try {
    const std::vector<Device> devices{cpu(0), cpu(1)};
    const BatchStream batches(points(), {.batch = 16, .devices = devices});
    Generator random(2);
    DataParallelLearner<Classifier, Batch> learner(
        Classifier(random),
        {.optimizer = [](Classifier& replica) { return std::make_unique<AdamW>(replica.parameters(), 1e-3); },
         .data = [&](std::size_t device) { return batches.stream(device); },
         .losses = [](Classifier& replica, const Batch& batch) -> Losses {
           return {{"loss", cross_entropy(replica(batch.inputs), batch.targets)}};
         }},
        {.devices = devices});
    const auto request = std::make_shared<StopOnRequest>(stop, "cancelled");
    learner.main().register_hook(request);
    learner.main().register_hook(std::make_shared<CallbackHook>(
        tutti::Callbacks{.after_step = [this](Trainer& trainer, const StepReport& report) {
          if (report.global_step % 10 == 0)
            callbacks_.progress(report.global_step, trainer.storage().latest("total_loss")->value);
        }}));
    learner.train({.steps = 1'000'000});
    callbacks_.ended(request->stopped() ? "cancelled" : "completed", learner.main().iteration());
  } catch (const std::exception& error) {
    callbacks_.ended(error.what(), 0);
  }

  Callbacks callbacks_;
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace

int main() {
  EventLoop loop;
  std::vector<std::string> log;
  set_log_sink(
      [&](LogLevel, std::string_view text) { loop.post([&log, line = std::string(text)] { log.push_back(line); }); });

  std::string end;
  std::int64_t steps = 0;
  double first = 0;
  double last = 0;
  std::unique_ptr<BackgroundTraining> training;
  training = std::make_unique<BackgroundTraining>(
      BackgroundTraining::Callbacks{.progress =
                                        [&](std::int64_t step, double loss) {
                                          loop.post([&, step, loss] {
                                            (step == 10 ? first : last) = loss;
                                            if (step == 200) training->cancel();  // as if the user had had enough
                                          });
                                        },
                                    .ended =
                                        [&](std::string how, std::int64_t made) {
                                          loop.post([&, how = std::move(how), made] {
                                            end = how;
                                            steps = made;
                                            loop.end();
                                          });
                                        }});
  loop.run();
  training.reset();
  set_log_sink({});

  std::printf("%s after %lld steps, loss %.3f, then %.3f; %zu lines of log\n", end.c_str(),
              static_cast<long long>(steps), first, last, log.size());
  return end == "cancelled" && steps >= 200 && steps < 1'000'000 && last < first ? 0 : 1;
}
