// SPDX-License-Identifier: Apache-2.0
// mpirun -n 2 mpi_engine [ROUNDS]: all-reduce between two processes of one host by the engine over MPI, by turns with
// MPI_Allreduce of the same MPI, and with the engines over sockets and over shared memory. A sample is the median of a
// few reductions, from a meeting that is not timed to the result on rank 0, and a round has one of each. Rank 0 prints
// a line of JSON per size: medians, and the median of MPI_Allreduce's time over the engine's in the same round.
#include <tutti/backend/registry.h>
#include <tutti/benches/samples.h>
#include <tutti/distributed/engines/network/mpi/connect_mpi.h>
#include <tutti/distributed/engines/network/mpi/mpi_runtime.h>
#include <tutti/distributed/engines/network/network_communicator.h>
#include <tutti/distributed/engines/shared_memory/shared_memory_communicator.h>

#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::bench;

namespace {

int rounds_of(std::int64_t bytes) { return bytes > 1 << 20 ? 3 : 31; }

/// One of two processes: its engines, and its gradient.
class Rank {
 public:
  explicit Rank(int rank) : rank_(rank), gradient_(Array::full({kMostBytes / 4}, 1.0, DType::f32, cpu(0))) {
    synchronize(cpu(0));
    engines_[0] = std::make_unique<NetworkCommunicator>(
        connect_mpi(MpiRuntime::instance(),
                    {.run = {}, .processes = 2, .rank = rank, .piece_bytes = mpi_piece_bytes(2)},
                    std::chrono::seconds(30)),
        std::vector<int>{0, 1}, rank, 1, kMembers, NetworkOptions{.piece_bytes = mpi_piece_bytes(2)});
    const DataDoor door("127.0.0.1");
    std::array<int, 3> own{door.port(), static_cast<int>(getpid()), rank};
    std::array<std::array<int, 3>, 2> all{};
    with_mpi([&] { MPI_Allgather(own.data(), 3, MPI_INT, all.data(), 3, MPI_INT, MPI_COMM_WORLD); });
    const NetworkMeeting meeting{
        .key = {}, .epoch = 1, .places = {{0, "127.0.0.1", all[0][0]}, {1, "127.0.0.1", all[1][0]}}, .rank = rank};
    engines_[1] = std::make_unique<NetworkCommunicator>(meeting, door, kMembers, NetworkOptions{.encrypt = false});
    auto shared = SharedMemoryCommunicator::connect("mpi-engine-" + std::to_string(all[0][1]), 1, kMembers, rank,
                                                    {.array_bytes = kMostBytes});
    shared_gradient_ = shared->shared_array({kMostBytes / 4}, DType::f32, cpu(0));
    std::fill_n(shared_gradient_.data<float>(), kMostBytes / 4, 1.0F);
    engines_[2] = std::move(shared);
  }

  void measure(std::int64_t bytes, int rounds) {
    PairedSamples mpi;
    PairedSamples sockets;
    PairedSamples memory;
    for (int round = -1; round < rounds; ++round) {
      const double peer = sample(bytes, [&] {
        with_mpi([&] {
          MPI_Allreduce(MPI_IN_PLACE, gradient_.data<float>(), static_cast<int>(bytes / 4), MPI_FLOAT, MPI_SUM,
                        MPI_COMM_WORLD);
        });
      });
      std::fill_n(gradient_.data<float>(), bytes / 4, 1.0F);
      std::array<double, 3> ours{};
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const Array slice = (i == 2 ? shared_gradient_ : gradient_).slice(0, 0, bytes / 4);
        ours[i] = sample(bytes, [&] {
          engines_[i]->all_reduce({.slices = {{slice, true}}, .ready = {}, .denominator = 2.0})->join(cpu(0));
        });
        if (slice.data<float>()[bytes / 8] != 1.0F) throw std::runtime_error("the mean of ones is another number");
      }
      if (round < 0) continue;
      mpi.add(peer, ours[0]);
      sockets.add(peer, ours[1]);
      memory.add(peer, ours[2]);
    }
    if (rank_ != 0) return;
    std::printf(
        "{\"bytes\": %lld, \"mpi_allreduce_us\": %.1f, \"over_mpi_us\": %.1f, \"sockets_us\": %.1f, \"memory_us\": "
        "%.1f, \"mpi_allreduce_of_over_mpi\": %.2f, \"of_sockets\": %.2f, \"of_memory\": %.2f}\n",
        static_cast<long long>(bytes), mpi.ours() * 1e6, mpi.peer() * 1e6, sockets.peer() * 1e6, memory.peer() * 1e6,
        mpi.ratio(), sockets.ratio(), memory.ratio());
    std::fflush(stdout);
  }

  static constexpr std::int64_t kMostBytes = 64 << 20;

 private:
  // The engine's thread calls MPI too, and MPI has been told that one thread at a time does.
  static void with_mpi(const std::function<void()>& work) {
    const std::lock_guard lock(MpiRuntime::instance().calls_mutex());
    work();
  }
  double sample(std::int64_t bytes, const std::function<void()>& reduce) {
    std::vector<double> times;
    for (int i = 0; i < rounds_of(bytes); ++i) {
      with_mpi([] { MPI_Barrier(MPI_COMM_WORLD); });
      const auto start = Clock::now();
      reduce();
      times.push_back(seconds_since(start));
    }
    return median(std::move(times));
  }

  static inline const std::vector<Member> kMembers{{0, cpu(0)}, {1, cpu(0)}};
  int rank_;
  Array gradient_;
  Array shared_gradient_;
  std::array<std::unique_ptr<Communicator>, 3> engines_;  // over MPI, sockets, shared memory
};

}  // namespace

int main(int argc, char** argv) {
  alarm(540);  // no rank outlives mpirun for long, whatever becomes of it
  const char* const said = std::getenv("OMPI_COMM_WORLD_RANK");
  if (said == nullptr || std::getenv("OMPI_COMM_WORLD_SIZE") != std::string("2") ||
      MpiRuntime::instance().trouble() != MpiTrouble::none) {
    std::fputs("usage: TUTTI_PLUGINS=FOLDER mpirun -n 2 mpi_engine [ROUNDS]\n", stderr);
    return 2;
  }
  try {
    Rank rank(std::atoi(said));
    for (const std::int64_t bytes : {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20})
      rank.measure(bytes, argc > 1 ? std::atoi(argv[1]) : 15);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %s: %s\n", said, error.what());
    return 1;
  }
}
