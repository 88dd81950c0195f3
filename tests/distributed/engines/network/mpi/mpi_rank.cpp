// SPDX-License-Identifier: Apache-2.0
// One process of a job that mpirun starts: mpi_rank ROLE [DEVICES...]. Prints "rank N: TEXT" at its end: a digest, or
// an error. Ends with status 0 all the same, as mpirun would end the others.
#include <tutti/distributed/engines/network/mpi/connect_mpi.h>
#include <tutti/distributed/engines/network/mpi/mpi_runtime.h>
#include <tutti/distributed/engines/network/network_communicator.h>
#include <tutti/distributed/process_group.h>
#include <tutti/tests/distributed/engines/network/mpi/words_training.h>
#include <tutti/tests/distributed/engines/shared_memory/rank_group.h>

#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <numeric>
#include <string>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// Reductions of the engine alone, in small pieces, with as many devices as each rank is told.
std::string reduce_at_random(const std::vector<std::size_t>& devices, int rank) {
  std::vector<Member> members;
  for (std::size_t each = 0; each < devices.size(); ++each)
    for (std::size_t i = 0; i < devices[each]; ++i)
      members.emplace_back(static_cast<int>(each), cpu(static_cast<std::uint16_t>(i)));
  std::vector<int> ranks(devices.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::size_t piece = 16 << 10;
  if (MpiRuntime::instance().trouble() != MpiTrouble::none) return "trouble";
  for (const std::uint8_t run : {1, 2}) {  // the second has a communicator of its own
    NetworkCommunicator engine(
        connect_mpi(MpiRuntime::instance(), {{run}, devices.size(), rank, piece}, std::chrono::seconds(30)), ranks,
        rank, run, members, {.piece_bytes = piece, .window_bytes = 1 << 20});
    reduce_many(engine, devices, static_cast<std::size_t>(rank), 100);
  }
  return "reduced";
}

std::string train(LaunchPlace place, std::size_t devices, ProcessEngine engine, int fails = -1) {
  ProcessGroup processes(place, {.silence = std::chrono::seconds(20), .engine = engine});
  std::vector<Device> own;
  for (std::size_t i = 0; i < devices; ++i) own.push_back(cpu(static_cast<std::uint16_t>(i)));
  GradientSync sync(processes, own);
  const auto digest = words_digest(sync, devices * static_cast<std::size_t>(place.rank), 6, fails);
  return std::string(processes.engine()) + " " + std::to_string(digest);
}

// Rank 1 stands still, as a whole or in its training, once all have made their replicas.
std::string train_beside_one_that(const std::string& role, const LaunchPlace& place) {
  ProcessGroup processes(place, {.silence = std::chrono::seconds(2), .engine = ProcessEngine::mpi});
  SyncOptions options;
  options.fail_after = std::chrono::seconds(role == "hangs" ? 5 : 60);
  GradientSync sync(processes, {cpu(0)}, options);
  auto replicas = sync.replicate(WordsModel(Generator(1)));
  train_words(sync, replicas[0], cpu(0), static_cast<std::size_t>(place.rank), 3, -1, [&](int step) {
    if (place.rank != 1 || step != 1) return;
    std::printf("rank 1: stands still\n");
    if (role == "stops") std::raise(SIGSTOP);
    for (;;) pause();
  });
  return "trained";
}

// The program has initialised MPI, and uses it beside the engine.
std::string train_as_guest(const LaunchPlace& place, int level) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, level, &provided);
  std::string text;
  try {
    text = train(place, 2, ProcessEngine::mpi);
  } catch (const std::exception& error) {
    text = error.what();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return text;
}

std::string result_of(const std::string& role, const std::vector<std::size_t>& devices, LaunchPlace place) {
  if (role == "reductions") return reduce_at_random(devices, place.rank);
  if (role == "train") return train(place, 2, ProcessEngine::mpi);
  if (role == "single") return train_as_guest(place, MPI_THREAD_SINGLE);
  if (role == "multiple") return train_as_guest(place, MPI_THREAD_MULTIPLE);
  if (role == "some") return train(place, 2, place.rank == 0 ? ProcessEngine::mpi : ProcessEngine::automatic);
  if (role == "other way round") {
    place.rank = place.size - 1 - place.rank;
    return train(place, 2, ProcessEngine::mpi);
  }
  if (role == "dies" && place.rank == 1) {
    ProcessGroup processes(place, {.silence = std::chrono::seconds(20), .engine = ProcessEngine::mpi});
    GradientSync sync(processes, {cpu(0)});
    auto replicas = sync.replicate(WordsModel(Generator(1)));
    std::printf("rank 1: kills itself over %s\n", processes.engine());
    std::raise(SIGKILL);
  }
  if (role == "dies") return train(place, 1, ProcessEngine::mpi);
  if (role == "stops" || role == "hangs") return train_beside_one_that(role, place);
  // An error, and a new group of the same processes.
  try {
    (void)train(place, 2, ProcessEngine::mpi, place.rank == 1 ? 3 : -1);
  } catch (const std::exception& error) {
    std::printf("rank %d: first %s\n", place.rank, error.what());
  }
  place.job += ", second";
  return train(place, 2, ProcessEngine::mpi);
}

}  // namespace

int main(int count, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (count < 2) return 2;
  std::vector<std::size_t> devices;
  for (int i = 2; i < count; ++i) devices.push_back(std::stoul(arguments[i]));
  const LaunchPlace place = launch_place();
  std::string text;
  try {
    text = result_of(arguments[1], devices, place);
  } catch (const std::exception& error) {
    text = error.what();
  }
  std::printf("rank %d: %s\n", place.rank, text.c_str());
}
