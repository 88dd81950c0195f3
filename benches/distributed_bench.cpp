// SPDX-License-Identifier: Apache-2.0
// All-reduce between two devices of one process, beside a plain sum by two threads in the same run.
#include <tutti/backend/array.h>
#include <tutti/benches/plain_sum.h>
#include <tutti/benches/samples.h>
#include <tutti/benches/thread_pair.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/distributed/sync_server.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

using namespace tutti;
using namespace tutti::bench;

namespace {

/// Two equal gradients on cpu:0 and cpu:1. Their average is themselves, so rounds may be repeated for ever.
struct Buffers {
  explicit Buffers(std::int64_t bytes) {
    for (std::uint16_t d = 0; d < 2; ++d) gradients.push_back(Array::full({bytes / 4}, 1.0, DType::f32, cpu(d)));
  }
  float* data(std::size_t device) const { return gradients[device].data<float>(); }
  std::size_t count() const { return static_cast<std::size_t>(gradients[0].size()); }
  std::vector<Array> gradients;
};

/// What both sides of a comparison go through: rounds in which each thread runs `reduce(device)`, which returns when
/// the result is in that device's buffer. With `written`, each thread first writes its buffer, outside of what is
/// timed, as a backward does: half of what it then reads lies in the other core's cache.
class Rounds {
 public:
  Rounds(std::int64_t bytes, bool written) : count_(bytes >= 1 << 20 ? 4 : 50), written_(written) {}

  template <class Reduce> double seconds(const Buffers& buffers, Reduce reduce) {
    double total = 0.0;
    threads_.run([&](std::size_t device) {
      for (int round = 0; round < count_; ++round) {
        if (written_) std::fill_n(buffers.data(device), buffers.count(), 1.0F);
        barrier_.arrive_and_wait();
        const auto start = Clock::now();
        reduce(device);
        if (device == 0) total += seconds_since(start);
      }
    });
    return total / count_;
  }
  double plain_sum(const Buffers& buffers) {
    return seconds(buffers, [&](std::size_t device) {
      average_half(buffers.data(0), buffers.data(1), buffers.count(), device);
      meet();
    });
  }
  void meet() { barrier_.arrive_and_wait(); }

 private:
  int count_;  // for one sample
  bool written_;
  ThreadPair threads_;
  SpinBarrier barrier_;
};

void report(benchmark::State& state, const PairedSamples& samples) {
  const double bytes = static_cast<double>(state.range(0));
  state.counters["us"] = samples.ours() * 1e6;
  state.counters["GB/s"] = bytes / samples.ours() * 1e-9;
  state.counters["peer_us"] = samples.peer() * 1e6;
  state.counters["peer_GB/s"] = bytes / samples.peer() * 1e-9;
  state.counters["of_peer"] = samples.ratio();
}

// The engine alone. One thread launches, as the server's drain does; both work on the chunks.
void all_reduce_communicator(benchmark::State& state) {
  const Buffers ours(state.range(0));
  const Buffers peer(state.range(0));
  Rounds rounds(state.range(0), state.range(1) != 0);
  LocalCommunicator communicator;
  std::shared_ptr<CollectiveTask> task[1];
  const auto reduce = [&](std::size_t device) {
    if (device == 0)
      task[0] = communicator.all_reduce(
          {.slices = {{ours.gradients[0], true}, {ours.gradients[1], true}}, .ready = {}, .denominator = 2.0});
    rounds.meet();
    join_tasks(cpu(static_cast<std::uint16_t>(device)), task);
  };
  PairedSamples samples;
  for (auto _ : state) {
    const double seconds = rounds.seconds(ours, reduce);
    samples.add(seconds, rounds.plain_sum(peer));
    state.SetIterationTime(seconds);
  }
  report(state, samples);
}

// A whole step of a model with one parameter: register, submit, collective sync, wait, join.
void all_reduce_server(benchmark::State& state) {
  Buffers ours(state.range(0));
  const Buffers peer(state.range(0));
  Rounds rounds(state.range(0), state.range(1) != 0);
  DistributedSyncServer server(GroupMembers({cpu(0), cpu(1)}), std::make_unique<LocalCommunicator>(), {});
  const std::vector<SyncParameter> parameters{{"weight", ours.gradients[0].shape(), DType::f32}};
  std::shared_ptr<const GradientArena> arenas[2];
  for (MemberIndex member = 0; member < 2; ++member) {
    server.declare_parameters(member, parameters);
    const Device device = cpu(static_cast<std::uint16_t>(member));
    arenas[member] = std::make_shared<const GradientArena>(server.layout(), parameters, device);
    ours.gradients[member] = arenas[member]->gradient({0});
  }
  const auto required = std::make_shared<const RequiredSet>(std::vector<ParameterId>{{0}});
  std::int64_t generation[2] = {0, 0};
  const auto reduce = [&](std::size_t device) {
    const Stamp stamp{static_cast<MemberIndex>(device), 1, ++generation[device]};
    server.register_parameters(stamp, 1.0, required, arenas[device]);
    server.submit(stamp, {0}, {ours.gradients[device], {}}, arenas[device].get());
    const auto waiter = server.collective_sync(stamp);
    server.await(*waiter, stamp.member);
    const std::shared_ptr<CollectiveTask> task[] = {waiter->result()->reduced.front().task};
    join_tasks(cpu(static_cast<std::uint16_t>(device)), task);
  };
  PairedSamples samples;
  for (auto _ : state) {
    const double seconds = rounds.seconds(ours, reduce);
    samples.add(seconds, rounds.plain_sum(peer));
    state.SetIterationTime(seconds);
  }
  report(state, samples);
}

// A fixed number of samples: what the machine does meanwhile must not decide how many there are.
void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"bytes", "written"})->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(100);
  bench->ArgsProduct({{4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20}, {0, 1}});
}

BENCHMARK(all_reduce_communicator)->Apply(sizes);
BENCHMARK(all_reduce_server)->Apply(sizes);

}  // namespace
