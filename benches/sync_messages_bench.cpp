// SPDX-License-Identifier: Apache-2.0
// What a message costs: in the ledger alone, in the server, and in the algorithm of the server that inspired ours.
#include <tutti/benches/samples.h>
#include <tutti/benches/thread_pair.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/distributed/ledger/sync_ledger.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/tests/distributed/ledger/ledger_driver.h>
#include <tutti/tests/distributed/ledger/original_server_model.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

using namespace tutti;
using namespace tutti::bench;

namespace {

std::shared_ptr<const RequiredSet> all_of(std::uint32_t parameters) {
  std::vector<ParameterId> ids;
  for (std::uint32_t id = 0; id < parameters; ++id) ids.push_back({id});
  return std::make_shared<const RequiredSet>(std::move(ids));
}

// Registration, gradients and sync, of each device in each step.
double messages_per_step(std::uint32_t parameters, std::uint32_t devices) {
  return static_cast<double>(devices) * (static_cast<double>(parameters) + 2.0);
}

void report(benchmark::State& state, const std::vector<double>& steps, double messages) {
  state.counters["ns_per_message"] = median(steps) / messages * 1e9;
  state.counters["messages"] = messages;
}

// Devices run abreast, as they do in data parallelism: parameter by parameter.
struct Group {
  std::uint32_t members = 0;
  std::uint32_t parameters = 0;
};

void ledger_step(SyncLedger& ledger, const Group& shape, const std::shared_ptr<const RequiredSet>& required,
                 std::vector<LedgerAction>& actions) {
  const std::int64_t generation = ledger.current_generation();
  for (MemberIndex member = 0; member < shape.members; ++member)
    ledger.register_parameters({member, 1, generation}, 1.0, required, actions);
  for (std::uint32_t id = 0; id < shape.parameters; ++id)
    for (MemberIndex member = 0; member < shape.members; ++member) {
      ledger.submit({member, 1, generation}, {id}, actions);
      actions.clear();
    }
  for (MemberIndex member = 0; member < shape.members; ++member)
    ledger.collective_sync({member, 1, generation}, actions);
  actions.clear();
}

void ledger(benchmark::State& state) {
  const Group shape{.members = static_cast<std::uint32_t>(state.range(1)),
                    .parameters = static_cast<std::uint32_t>(state.range(0))};
  SyncLedger ledger({.members = shape.members, .layout = tutti::testing::scalar_layout(shape.parameters)});
  const auto required = all_of(shape.parameters);
  std::vector<LedgerAction> actions;
  ledger_step(ledger, shape, required, actions);  // the first registration counts the set once
  std::vector<double> steps;
  for (auto _ : state) {
    const auto start = Clock::now();
    ledger_step(ledger, shape, required, actions);
    steps.push_back(seconds_since(start));
  }
  if (ledger.fault()) state.SkipWithError("the group failed");
  report(state, steps, messages_per_step(shape.parameters, shape.members));
}

/// Which member sends the next gradient: all members run at about the same speed, in random order.
std::vector<std::uint16_t> random_turns(const Group& shape) {
  std::vector<std::uint16_t> turns;
  turns.reserve(std::size_t{shape.members} * shape.parameters);
  for (std::uint32_t id = 0; id < shape.parameters; ++id)
    for (std::uint32_t member = 0; member < shape.members; ++member)
      turns.push_back(static_cast<std::uint16_t>(member));
  std::ranges::shuffle(turns, std::mt19937(7));
  return turns;
}

double allocated_bytes() {
#if defined(__GLIBC__)
  const auto heap = mallinfo2();
  return static_cast<double>(heap.uordblks + heap.hblkhd);
#else
  return 0.0;
#endif
}

// A group as large as the ledger is meant for; no devices behind it. Each member sends its gradients as a backward
// does, last parameter first.
void ledger_scale(benchmark::State& state) {
  const Group shape{.members = static_cast<std::uint32_t>(state.range(1)),
                    .parameters = static_cast<std::uint32_t>(state.range(0))};
  const auto required = all_of(shape.parameters);
  const std::vector<std::uint16_t> turns = random_turns(shape);
  const double before = allocated_bytes();
  SyncLedger ledger({.members = shape.members, .layout = tutti::testing::scalar_layout(shape.parameters)});
  std::vector<LedgerAction> actions;
  ledger_step(ledger, shape, required, actions);
  const double memory = allocated_bytes() - before;
  std::vector<double> steps;
  for (auto _ : state) {
    std::vector<std::uint32_t> left(shape.members, shape.parameters);
    const std::int64_t generation = ledger.current_generation();
    const auto start = Clock::now();
    for (MemberIndex member = 0; member < shape.members; ++member)
      ledger.register_parameters({member, 1, generation}, 1.0, required, actions);
    for (const std::uint16_t member : turns) {
      ledger.submit({member, 1, generation}, {--left[member]}, actions);
      actions.clear();
    }
    for (MemberIndex member = 0; member < shape.members; ++member)
      ledger.collective_sync({member, 1, generation}, actions);
    actions.clear();
    steps.push_back(seconds_since(start));
  }
  if (ledger.fault()) state.SkipWithError("the group failed");
  const double messages = messages_per_step(shape.parameters, shape.members);
  report(state, steps, messages);
  state.counters["step_ms"] = median(steps) * 1e3;
  state.counters["messages/s"] = messages / median(steps);
  state.counters["MB"] = memory * 1e-6;
  state.counters["bytes_per_cell"] = memory / (static_cast<double>(shape.members) * shape.parameters);
}

void original_server(benchmark::State& state) {
  const auto devices = static_cast<int>(state.range(1));
  std::vector<int> ids(static_cast<std::size_t>(state.range(0)));
  std::iota(ids.begin(), ids.end(), 0);
  tutti::testing::OriginalServerModel server(static_cast<std::size_t>(devices));
  std::vector<double> steps;
  for (auto _ : state) {
    const auto start = Clock::now();
    for (int device = 0; device < devices; ++device) server.register_parameters(ids);
    for (const int id : ids)
      for (int device = 0; device < devices; ++device) server.submit(id, device);
    for (int device = 0; device < devices; ++device) server.collective_sync(device);
    steps.push_back(seconds_since(start));
    server.reduced.clear();
  }
  report(state, steps, messages_per_step(static_cast<std::uint32_t>(ids.size()), static_cast<std::uint32_t>(devices)));
}

/// Steps of two devices with gradients of one element, so that messages are all that costs.
class TinyGradients {
 public:
  explicit TinyGradients(std::uint32_t parameters)
      : server_(GroupMembers({cpu(0), cpu(1)}), std::make_unique<LocalCommunicator>(), {}),
        required_(all_of(parameters)) {
    for (std::uint32_t id = 0; id < parameters; ++id)
      declared_.push_back({"parameter" + std::to_string(id), {1}, DType::f32});
    for (MemberIndex device = 0; device < 2; ++device) server_.declare_parameters(device, declared_);
  }

  void post(std::size_t device, std::int64_t generation) {
    const Stamp stamp{static_cast<MemberIndex>(device), 1, generation};
    auto& arena = arenas_[device];
    if (!arena || arena->layout() != server_.layout())
      arena =
          std::make_shared<const GradientArena>(server_.layout(), declared_, cpu(static_cast<std::uint16_t>(device)));
    server_.register_parameters(stamp, 1.0, required_, arena);
    for (const ParameterId id : required_->parameters())
      server_.submit(stamp, id, {arena->gradient(id), {}}, arena.get());
    waiters_[device] = server_.collective_sync(stamp);
  }
  void join(std::size_t device) {
    server_.await(*waiters_[device], static_cast<MemberIndex>(device));
    std::vector<std::shared_ptr<CollectiveTask>> tasks;
    for (const auto& reduced : waiters_[device]->result()->reduced) tasks.push_back(reduced.task);
    join_tasks(cpu(static_cast<std::uint16_t>(device)), tasks);
  }

 private:
  DistributedSyncServer server_;
  std::shared_ptr<const RequiredSet> required_;
  std::vector<SyncParameter> declared_;
  std::shared_ptr<const GradientArena> arenas_[2];
  std::shared_ptr<SyncWaiter> waiters_[2];
};

void report_gradients(benchmark::State& state, const std::vector<double>& steps) {
  const double gradients = 2.0 * static_cast<double>(state.range(0));
  state.counters["us_per_step"] = median(steps) * 1e6;
  state.counters["ns_per_gradient"] = median(steps) / gradients * 1e9;
}

// Both devices post at the same time.
void server_two_threads(benchmark::State& state) {
  TinyGradients group(static_cast<std::uint32_t>(state.range(0)));
  ThreadPair threads;
  SpinBarrier barrier;
  std::int64_t generation = 0;
  std::vector<double> steps;
  for (auto _ : state) {
    ++generation;
    double seconds = 0.0;
    threads.run([&](std::size_t device) {
      barrier.arrive_and_wait();
      const auto start = Clock::now();
      group.post(device, generation);
      group.join(device);
      barrier.arrive_and_wait();
      if (device == 0) seconds = seconds_since(start);
    });
    steps.push_back(seconds);
    state.SetIterationTime(seconds);
  }
  report_gradients(state, steps);
}

// One thread drives both devices: the same work without contention.
void server_one_thread(benchmark::State& state) {
  TinyGradients group(static_cast<std::uint32_t>(state.range(0)));
  std::int64_t generation = 0;
  std::vector<double> steps;
  for (auto _ : state) {
    ++generation;
    const auto start = Clock::now();
    for (std::size_t device = 0; device < 2; ++device) group.post(device, generation);
    for (std::size_t device = 0; device < 2; ++device) group.join(device);
    steps.push_back(seconds_since(start));
    state.SetIterationTime(steps.back());
  }
  report_gradients(state, steps);
}

BENCHMARK(ledger)
    ->ArgNames({"parameters", "devices"})
    ->ArgsProduct({{10, 100, 1'000, 10'000, 100'000}, {2, 8, 64}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(ledger_scale)
    ->ArgNames({"parameters", "devices"})
    ->Args({10'000, 1'024})
    ->Iterations(10)
    ->Unit(benchmark::kMillisecond);
// Its cost grows with the square of the parameters: 10,000 on 2 devices already take half a minute a step.
BENCHMARK(original_server)
    ->ArgNames({"parameters", "devices"})
    ->ArgsProduct({{10, 100}, {2, 8, 64}})
    ->ArgsProduct({{1'000}, {2, 8}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(server_two_threads)
    ->ArgName("parameters")
    ->RangeMultiplier(10)
    ->Range(10, 10'000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(server_one_thread)
    ->ArgName("parameters")
    ->RangeMultiplier(10)
    ->Range(10, 10'000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
