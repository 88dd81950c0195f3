// SPDX-License-Identifier: Apache-2.0
// All-reduce in place between two processes over shared memory, beside the same between two threads of one process in
// the same run, by turns; and their agreement on a step.
#include <tutti/backend/array.h>
#include <tutti/benches/samples.h>
#include <tutti/benches/thread_pair.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/distributed/engines/shared_memory/shared_memory_communicator.h>
#include <tutti/distributed/processes/round_agreement.h>

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
        gradient_(communicator_->shared_array({kMostBytes / 4}, DType::f32, cpu(0))),
        words_(communicator_->words()),
        agreement_({.parameters = kParameters}, rank, {1, 1}) {
    std::fill_n(gradient_.data<float>(), gradient_.size(), 1.0F);
    std::vector<ParameterId> all;
    for (std::uint32_t id = 0; id < kParameters; ++id) all.push_back({id});
    step_.registrations = {{.required = std::make_shared<RequiredSet>(std::move(all)), .weight = 1.0}};
    if (!agree()) agreement_.hear_sets(exchange(agreement_.sets(step_)));
  }

  /// Median of a sample's agreements on a step like the one before, from a process's question to its answer.
  double seconds_of_agreement() {
    std::vector<double> times;
    for (int round = 0; round < 201; ++round) {
      barrier_.arrive_and_wait();
      const auto start = Clock::now();
      const bool agreed = agree();
      times.push_back(seconds_since(start));
      if (!agreed) throw std::runtime_error("the processes do not agree on a step like the one before");
    }
    return median(std::move(times));
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
  static constexpr std::uint32_t kParameters = 100;
  static inline const std::vector<Member> kMembers{{0, cpu(0)}, {1, cpu(0)}};

  // As MemoryLink does on the thread of a device.
  std::vector<Bytes> exchange(const Bytes& own) {
    words_->say(++said_, own);
    spin_until([this] { return words_->all_have_said(said_); });
    return {words_->words(0, said_).value(), words_->words(1, said_).value()};
  }
  bool agree() {
    ++step_.generation;
    agreement_.hear_words(step_.generation, exchange(agreement_.words(step_)));
    return agreement_.agreed().has_value();
  }

  SpinBarrier& barrier_;
  std::unique_ptr<SharedMemoryCommunicator> communicator_;
  Array gradient_;
  std::shared_ptr<SegmentWords> words_;
  RoundAgreement agreement_;
  Agree step_;
  std::uint64_t said_ = 0;
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

  double seconds(std::int64_t bytes) { return sample(bytes); }
  double seconds_of_agreement() { return sample(kAgreement); }

 private:
  static constexpr std::int64_t kAgreement = 0;  // in place of a size

  static double sample_of(Rank& rank, std::int64_t bytes) {
    return bytes == kAgreement ? rank.seconds_of_agreement() : rank.seconds(bytes);
  }
  double sample(std::int64_t bytes) {
    const OneCore core(0);
    if (write(samples_[1], &bytes, sizeof bytes) != sizeof bytes) throw std::runtime_error("rank 1 has gone");
    return sample_of(*rank_, bytes);
  }
  // Between samples it sleeps, as it must not take a core from what is compared.
  [[noreturn]] void serve(const std::string& name) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(samples_[1]);
    try {
      Rank rank(1, name, *barrier_);
      const OneCore core(1);
      for (std::int64_t bytes = 0; read(samples_[0], &bytes, sizeof bytes) == sizeof bytes;) sample_of(rank, bytes);
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

void agreement_shared_memory(benchmark::State& state) {
  std::vector<double> samples;
  for (auto _ : state) {
    samples.push_back(processes().seconds_of_agreement());
    state.SetIterationTime(samples.back());
  }
  state.counters["us"] = median(std::move(samples)) * 1e6;
}

BENCHMARK(agreement_shared_memory)->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(100);

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
