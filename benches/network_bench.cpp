// SPDX-License-Identifier: Apache-2.0
// All-reduce between two processes over the loopback interface, plain and encrypted, beside the same exchange over
// plain sockets in the same run, by turns: each process sends half of its elements, sums the other half, and sends the
// sums.
#include <tutti/backend/array.h>
#include <tutti/backend/registry.h>
#include <tutti/benches/samples.h>
#include <tutti/benches/thread_pair.h>
#include <tutti/distributed/engines/network/network_communicator.h>

#include <benchmark/benchmark.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
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
#include <vector>

using namespace tutti;
using namespace tutti::bench;

namespace {

constexpr std::int64_t kMostBytes = 64 << 20;

enum class Way : std::int64_t { sockets, plain, encrypted };

int rounds_of(std::int64_t bytes) { return bytes > 1 << 20 ? 3 : 31; }

/// A connection to the other process, which is all that is used of it.
class PlainSockets {
 public:
  PlainSockets(int rank, const DataDoor& door, int other_port) : rank_(rank) {
    if (rank == 1) connection_ = DataDoor::call("127.0.0.1", other_port);
    while (!connection_) connection_ = door.accept();
  }

  void all_reduce(float* elements, std::int64_t count) {
    const std::int64_t half = count / 2;
    float* const mine = elements + rank_ * half;
    float* const theirs = elements + (1 - rank_) * half;
    incoming_.resize(static_cast<std::size_t>(half));
    const auto bytes = static_cast<std::size_t>(half) * sizeof(float);
    exchange(theirs, incoming_.data(), bytes);
    for (std::int64_t i = 0; i < half; ++i) mine[i] = (mine[i] + incoming_[static_cast<std::size_t>(i)]) * 0.5F;
    exchange(mine, theirs, bytes);
  }

 private:
  void exchange(const void* out, void* in, std::size_t bytes) {
    for (std::size_t sent = 0, received = 0; sent < bytes || received < bytes;) {
      bool moved = false;
      const auto count = [&](ssize_t some, std::size_t& all) {
        if (some > 0) all += static_cast<std::size_t>(some);
        moved |= some > 0;
      };
      if (sent < bytes)
        count(send(connection_.get(), static_cast<const char*>(out) + sent, bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL),
              sent);
      if (received < bytes)
        count(recv(connection_.get(), static_cast<char*>(in) + received, bytes - received, MSG_DONTWAIT), received);
      if (moved) continue;
      pollfd socket{connection_.get(), static_cast<short>((sent < bytes ? POLLOUT : 0) | POLLIN), 0};
      poll(&socket, 1, 1000);
    }
  }

  int rank_;
  OwnedDescriptor connection_;
  std::vector<float> incoming_;
};

/// One of two processes: its engines, and its gradient.
class Rank {
 public:
  Rank(int rank, const DataDoor& door, const std::vector<NetworkMeeting::Place>& places, SpinBarrier& barrier)
      : barrier_(barrier),
        sockets_(rank, door, places[0].port),
        gradient_(Array::full({kMostBytes / 4}, 1.0, DType::f32, cpu(0))) {
    synchronize(cpu(0));
    for (const bool encrypt : {false, true}) {
      NetworkMeeting meeting{.key = {}, .epoch = encrypt ? 2U : 1U, .places = places, .rank = rank};
      engines_.push_back(
          std::make_unique<NetworkCommunicator>(meeting, door, kMembers, NetworkOptions{.encrypt = encrypt}));
    }
  }

  /// Median of a sample's reductions; the gradients' mean is themselves, so they may be repeated for ever.
  double seconds(std::int64_t bytes, Way way) {
    const Array slice = gradient_.slice(0, 0, bytes / 4);
    std::vector<double> times;
    for (int round = 0; round < rounds_of(bytes); ++round) {
      barrier_.arrive_and_wait();
      const auto start = Clock::now();
      if (way == Way::sockets)
        sockets_.all_reduce(gradient_.data<float>(), bytes / 4);
      else
        engines_[way == Way::encrypted ? 1 : 0]
            ->all_reduce({.slices = {{slice, true}}, .ready = {}, .denominator = 2.0})
            ->join(cpu(0));
      times.push_back(seconds_since(start));
    }
    return median(std::move(times));
  }

 private:
  static inline const std::vector<Member> kMembers{{0, cpu(0)}, {1, cpu(0)}};
  SpinBarrier& barrier_;
  PlainSockets sockets_;
  Array gradient_;
  std::vector<std::unique_ptr<NetworkCommunicator>> engines_;  // plain, encrypted
};

/// This process as rank 0 and a forked one as rank 1. To be made before anything starts a thread.
class ProcessPair {
 public:
  ProcessPair() {
    void* memory = mmap(nullptr, sizeof(SpinBarrier), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || pipe(samples_) != 0) throw std::runtime_error("no memory or pipe for two processes");
    barrier_ = new (memory) SpinBarrier;
    const DataDoor doors[] = {DataDoor("127.0.0.1"), DataDoor("127.0.0.1")};
    const std::vector<NetworkMeeting::Place> places{{0, "127.0.0.1", doors[0].port()},
                                                    {1, "127.0.0.1", doors[1].port()}};
    other_ = fork();
    if (other_ == 0) serve(doors[1], places);
    if (other_ < 0) throw std::runtime_error("no second process");
    close(samples_[0]);
    rank_.emplace(0, doors[0], places, *barrier_);
  }
  ~ProcessPair() {
    close(samples_[1]);
    rank_.reset();
    waitpid(other_, nullptr, 0);
  }
  ProcessPair(const ProcessPair&) = delete;
  ProcessPair& operator=(const ProcessPair&) = delete;

  double seconds(std::int64_t bytes, Way way) {
    const std::int64_t sample[] = {bytes, static_cast<std::int64_t>(way)};
    if (write(samples_[1], sample, sizeof sample) != sizeof sample) throw std::runtime_error("rank 1 has gone");
    return rank_->seconds(bytes, way);
  }

 private:
  [[noreturn]] void serve(const DataDoor& door, const std::vector<NetworkMeeting::Place>& places) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(samples_[1]);
    try {
      Rank rank(1, door, places, *barrier_);
      for (std::int64_t sample[2]; read(samples_[0], sample, sizeof sample) == sizeof sample;)
        rank.seconds(sample[0], static_cast<Way>(sample[1]));
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

ProcessPair& processes() {
  static ProcessPair pair;
  return pair;
}

void all_reduce_network(benchmark::State& state) {
  PairedSamples plain;
  PairedSamples encrypted;
  for (auto _ : state) {
    const double sockets = processes().seconds(state.range(0), Way::sockets);
    const double ours = processes().seconds(state.range(0), Way::plain);
    plain.add(ours, sockets);
    encrypted.add(processes().seconds(state.range(0), Way::encrypted), sockets);
    state.SetIterationTime(ours);
  }
  state.counters["us"] = plain.ours() * 1e6;
  state.counters["sockets_us"] = plain.peer() * 1e6;
  state.counters["encrypted_us"] = encrypted.ours() * 1e6;
  state.counters["of_sockets"] = plain.ratio();
  state.counters["encrypted_of_sockets"] = encrypted.ratio();
}

BENCHMARK(all_reduce_network)
    ->ArgName("bytes")
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(15)
    ->Arg(64 << 10)
    ->Arg(1 << 20)
    ->Arg(16 << 20)
    ->Arg(64 << 20);

}  // namespace
