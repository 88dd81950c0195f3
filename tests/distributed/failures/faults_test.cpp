// SPDX-License-Identifier: Apache-2.0
// Each way to fail, in the middle of a training: every device gets an error that names the culprit, well within the
// deadline, and the same process forms a new group and trains on.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/custom_function.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t kDevices = 3;
constexpr MemberIndex kCulprit = 1;
constexpr int kFaultyStep = 3;

thread_local bool warns_here = false;  // this is the server's own thread

// The local engine; its call number `fails_at` throws, and one on the server's own thread.
class FailingEngine : public LocalCommunicator {
 public:
  std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest request) override {
    if (std::exchange(warns_here, false)) throw std::runtime_error("the server's thread burnt");
    if (++calls_ == fails_at) throw std::runtime_error("link down");
    return LocalCommunicator::all_reduce(std::move(request));
  }
  int fails_at = 0;

 private:
  int calls_ = 0;
};

/// Three devices that train; the culprit does something else in one step.
struct Training {
  Training() {
    SyncOptions options;
    options.reduction = GradientReduction::mean;
    options.bucket_bytes = 0;
    options.warn_after = milliseconds(100);
    options.fail_after = milliseconds(1000);
    options.warn = [this](const std::string& text) {
      if (warn_throws) throw std::runtime_error("the warning burnt");
      warnings += text;
      const std::int64_t generation = warning_registers.exchange(0);
      if (generation == 0) return;
      warns_here = true;
      register_nothing(generation);
      posted = true;
    };
    auto failing = std::make_unique<FailingEngine>();
    engine = failing.get();
    sync = std::make_unique<GradientSync>(test_devices(kDevices), options, std::move(failing));
    replicas = sync->replicate(TwoBranches{});
    for (MemberIndex d = 0; d < kDevices; ++d) {
      optimizers.push_back(std::make_unique<Sgd>(replicas[d].parameters(), 0.125));
      sync->attach(device(d), *optimizers[d]);
    }
  }

  static Device device(std::size_t d) { return cpu(static_cast<std::uint16_t>(d)); }
  Stamp stamp(std::int64_t generation) const { return {kCulprit, sync->group_number(), generation}; }
  // For the culprit: the last that the others' gradients wait for.
  void register_nothing(std::int64_t generation) const {
    const auto arena = std::make_shared<const GradientArena>(
        sync->server().layout(), std::vector<SyncParameter>{{"left", {2}, DType::f64}, {"right", {2}, DType::f64}},
        device(kCulprit));
    sync->server().register_parameters(stamp(generation), 1, std::make_shared<const RequiredSet>(), arena,
                                       compute_stream(device(kCulprit)).record());
  }
  Tensor loss(std::size_t d) const { return use(replicas[d].left, 1.0 + static_cast<double>(d)); }

  void train(std::size_t d, int steps, const std::function<void(Training&, Step&)>& fault = {}) {
    for (int i = 1; i <= steps; ++i) {
      optimizers[d]->zero_grad();
      auto step = sync->step(device(d));
      if (fault && d == kCulprit && i == kFaultyStep) fault(*this, step);
      step.backward(loss(d));
      optimizers[d]->step();
    }
  }

  std::unique_ptr<GradientSync> sync;
  FailingEngine* engine = nullptr;
  std::vector<TwoBranches> replicas;
  std::vector<std::unique_ptr<Sgd>> optimizers;
  std::atomic<bool> warn_throws{false};
  std::atomic<std::int64_t> warning_registers{0};  // the warning registers this generation for the culprit
  std::atomic<bool> posted{false};                 // and has done so
  std::string warnings;
};

struct FaultCase {
  const char* name;
  const char* named;  // what every device's error contains
  std::function<void(Training&, Step&)> act;
};

Tensor failing(const Tensor& x) {
  return custom_function(
      "failing", {x}, [](std::span<const Array> in) { return in[0].copy(); },
      [](std::span<const Array>, const Array&, const Array&) -> std::vector<Array> {
        throw std::runtime_error("burnt");
      });
}

// Longer than the deadline, as a device that hangs would.
void hang(Training&, Step&) { std::this_thread::sleep_for(milliseconds(1500)); }

const std::vector<FaultCase> kFaults{
    {"throws before backward", "cpu:1", [](Training&, Step&) { throw std::runtime_error("burnt"); }},
    {"throws in backward", "cpu:1",
     [](Training& t, Step& step) { step.backward(use(failing(t.replicas[1].left), 1)); }},
    {"throws after backward, before its end is known", "cpu:1",
     [](Training& t, Step& step) {
       step.backward_async(t.loss(1));
       throw std::runtime_error("burnt");
     }},
    {"never arrives", "cpu:1", hang},
    {"registers twice", "cpu:1",
     [](Training& t, Step& step) {
       for (int i = 0; i < 2; ++i) t.register_nothing(step.generation());
     }},
    {"syncs without having registered", "cpu:1",
     [](Training& t, Step& step) { t.sync->server().collective_sync(t.stamp(step.generation())); }},
    {"wrong shape", "\"left\"",
     [](Training& t, Step& step) {
       t.sync->server().submit(t.stamp(step.generation()), {0},
                               {Array::zeros({5}, DType::f64, Training::device(1)), Event()}, nullptr);
     }},
    {"wrong dtype", "\"left\"",
     [](Training& t, Step& step) {
       t.sync->server().submit(t.stamp(step.generation()), {0},
                               {Array::zeros({2}, DType::f32, Training::device(1)), Event()}, nullptr);
     }},
    {"unknown parameter", "cpu:1",
     [](Training& t, Step& step) { t.sync->server().submit(t.stamp(step.generation()), {99}, {}, nullptr); }},
    {"stale generation", "cpu:1",
     [](Training& t, Step& step) { t.sync->server().collective_sync(t.stamp(step.generation() - 1)); }},
    {"the server's own thread throws", "the server's thread burnt",
     [](Training& t, Step& step) {
       t.warning_registers = step.generation();
       while (!t.posted) std::this_thread::yield();
     }},
    {"never arrives, and nobody can be warned", "cpu:1",
     [](Training& t, Step& step) {
       t.warn_throws = true;
       hang(t, step);
     }},
    {"the engine fails", "link down", [](Training&, Step&) {}},
};

}  // namespace

TEST_CASE("faults: all devices hear who it was, and the same process trains on") {
  for (const FaultCase& fault : kFaults) {
    CAPTURE(fault.name);
    Training training;
    if (std::string(fault.name) == "the engine fails") training.engine->fails_at = kFaultyStep;
    const auto started = std::chrono::steady_clock::now();
    const auto errors = errors_of_devices(kDevices, [&](std::size_t d) { training.train(d, 6, fault.act); });
    CHECK(std::chrono::steady_clock::now() - started < milliseconds(8000));
    for (MemberIndex d = 0; d < kDevices; ++d) {
      CAPTURE(d);
      CHECK_FALSE(errors[d].empty());
      if (d != kCulprit) CHECK_MESSAGE(errors[d].find(fault.named) != std::string::npos, errors[d]);
    }
    training.warn_throws = false;
    const std::int64_t done = training.optimizers[0]->steps();
    CHECK((done == kFaultyStep - 1 || done == kFaultyStep));  // a failure after backward may find its step committed
    run_devices(kDevices, [&](std::size_t d) {
      training.sync->rejoin(Training::device(d), training.optimizers[d]->steps());
      training.train(d, 4);
    });
    CHECK(training.sync->group_number() == 2);
    for (const auto& optimizer : training.optimizers) CHECK(optimizer->steps() == done + 4);
    const double moved = 0.125 * 2.0 * static_cast<double>(done + 4);  // the mean of 1, 2 and 3
    for (const TwoBranches& replica : training.replicas)
      CHECK(replica.left.to_vector<double>() == Values{1 - moved, 2 - moved});
  }
}

TEST_CASE("faults: a group that is closed while devices wait fails them, and a new one trains") {
  Training training;
  std::atomic<int> waiting{0};
  std::thread closer([&] {
    while (waiting < 2) std::this_thread::yield();
    training.sync->close();
  });
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = training.sync->step(Training::device(d));
    step.backward_async(training.loss(d));
    ++waiting;
    step.join();
  });
  closer.join();
  for (const std::string& error : errors) CHECK_MESSAGE(error.find("closed") != std::string::npos, error);
  Training fresh;
  run_devices(kDevices, [&](std::size_t d) { fresh.train(d, 3); });
}

TEST_SUITE_END();
