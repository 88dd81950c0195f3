// SPDX-License-Identifier: Apache-2.0
// All-reduce in place between two processes over shared memory, beside the same between two threads of one process in
// the same run, by turns.
#include <tutti/backend/array.h>
#include <tutti/benches/samples.h>
#include <tutti/benches/thread_pair.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/distributed/engines/shared_memory/shared_memory_communicator.h>

#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace tutti;
using namespace tutti::bench;

namespace {

constexpr std::int64_t kMostBytes = 64 << 20;

int rounds_of(std::int64_t bytes) { return bytes > 1 << 20 ? 7 : 51; }

/// One of two processes: its engine, and its gradient in shared memory.
class Rank {
 public:
  Rank(int rank, const std::string& name, SpinBarrier& barrier)
      : barrier_(barrier),
        communicator_(SharedMemoryCommunicator::connect(name, 1, kMembers, rank, {.array_bytes = kMostBytes})),
        gradient_(communicator_->shared_array({kMostBytes / 4}, DType::f32, cpu(0))) {
    std::fill_n(gradient_.data<float>(), gradient_.size(), 1.0F);
  }

  /// Median of a sample's reductions; the gradients' mean is themselves, so they may be repeated for ever.
  double seconds(std::int64_t bytes) {
    const Array slice = gradient_.slice(0, 0, bytes / 4);
    const int rounds = rounds_of(bytes);
    std::vector<double> times;
    for (int round = 0; round < rounds; ++round) {
      barrier_.arrive_and_wait();
      const auto start = Clock::now();
      communicator_->all_reduce({.slices = {{slice, true}}, .ready = {}, .denominator = 2.0})->join(cpu(0));
      times.push_back(seconds_since(start));
    }
    return median(std::move(times));
  }

 private:
  static inline const std::vector<Member> kMembers{{0, cpu(0)}, {1, cpu(0)}};
  SpinBarrier& barrier_;
  std::unique_ptr<SharedMemoryCommunicator> communicator_;
  Array gradient_;
};

/// This process as rank 0 and a forked one as rank 1, each on a core of its own. To be made before anything starts a
/// thread.
class ProcessPair {
 public:
  ProcessPair() {
    void* memory = mmap(nullptr, sizeof(SpinBarrier), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || pipe(samples_) != 0) throw std::runtime_error("no memory or pipe for two processes");
    barrier_ = new (memory) SpinBarrier;
    const std::string name = "bench-" + std::to_string(getpid());
    other_ = fork();
    if (other_ == 0) serve(name);
    if (other_ < 0) throw std::runtime_error("no second process");
    close(samples_[0]);
    rank_.emplace(0, name, *barrier_);
  }
  ~ProcessPair() {
    close(samples_[1]);
    rank_.reset();
    waitpid(other_, nullptr, 0);
  }
  ProcessPair(const ProcessPair&) = delete;
  ProcessPair& operator=(const ProcessPair&) = delete;

  double seconds(std::int64_t bytes) {
    const OneCore core(0);
    if (write(samples_[1], &bytes, sizeof bytes) != sizeof bytes) throw std::runtime_error("rank 1 has gone");
    return rank_->seconds(bytes);
  }

 private:
  // Between samples it sleeps, as it must not take a core from what is compared.
  [[noreturn]] void serve(const std::string& name) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(samples_[1]);
    try {
      Rank rank(1, name, *barrier_);
      const OneCore core(1);
      for (std::int64_t bytes = 0; read(samples_[0], &bytes, sizeof bytes) == sizeof bytes;) rank.seconds(bytes);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank 1: %s\n", error.what());
    }
    _exit(0);
  }

  SpinBarrier* barrier_;
  int samples_[2] = {-1, -1};  // a pipe of their sizes
  pid_t other_;
  std::optional<Rank> rank_;
};

/// The same by LocalCommunicator, with two threads that live for the bench.
class ThreadsOfOneProcess {
 public:
  explicit ThreadsOfOneProcess(std::int64_t bytes) : rounds_(rounds_of(bytes)) {
    for (std::uint16_t d = 0; d < 2; ++d) gradients_.push_back(Array::full({bytes / 4}, 1.0, DType::f32, cpu(d)));
  }

  /// Median of a sample's reductions: on a busy machine some wait for a core.
  double seconds() {
    std::vector<double> times;
    ThreadPair threads;
    threads.run([&](std::size_t device) {
      for (int round = 0; round < rounds_; ++round) {
        barrier_.arrive_and_wait();
        const auto start = Clock::now();
        if (device == 0)
          task_ = communicator_.all_reduce(
              {.slices = {{gradients_[0], true}, {gradients_[1], true}}, .ready = {}, .denominator = 2.0});
        barrier_.arrive_and_wait();
        task_->join(cpu(static_cast<std::uint16_t>(device)));
        if (device == 0) times.push_back(seconds_since(start));
      }
    });
    return median(std::move(times));
  }

 private:
  int rounds_;
  std::vector<Array> gradients_;
  LocalCommunicator communicator_;
  SpinBarrier barrier_;
  std::shared_ptr<CollectiveTask> task_;
};

// The process of rank 1 is forked when the program starts, while it has one thread; it sleeps until it is asked for.
ProcessPair& processes() {
  static ProcessPair pair;
  return pair;
}

void all_reduce_shared_memory(benchmark::State& state) {
  ThreadsOfOneProcess local(state.range(0));
  PairedSamples samples;
  for (auto _ : state) {
    const double seconds = processes().seconds(state.range(0));
    samples.add(seconds, local.seconds());
    state.SetIterationTime(seconds);
  }
  state.counters["us"] = samples.ours() * 1e6;
  state.counters["local_us"] = samples.peer() * 1e6;
  state.counters["of_local"] = samples.ratio();
}

BENCHMARK(all_reduce_shared_memory)
    ->ArgName("bytes")
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(100)
    ->Arg(64 << 10)
    ->Arg(1 << 20)
    ->Arg(4 << 20)
    ->Arg(16 << 20)
    ->Arg(64 << 20);

}  // namespace
