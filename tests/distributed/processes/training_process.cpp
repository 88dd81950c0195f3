// SPDX-License-Identifier: Apache-2.0
// One rank of a job, as launchers start it: training_process DEVICES STEPS automatic|network|plain|mpi FIRST [RANK SIZE
// STEPS]. FIRST is the number of its first device, for data; "by_rank": as many for each lower rank. TRAINED_WAY in the
// environment: "optimizer_state" or "gradients", what is sharded, "double_buffered", "compressed"; "absent": it takes
// no part, or "hangs": device 1 stands still after a hundred steps. Prints "ready" before it makes the group, "step N"
// after every hundred steps, "digest N" at its end, or "failed: TEXT" as soon as a device's step throws and "error:
// TEXT" once the group has gone. TRAINED_SILENCE and TRAINED_RENDEZVOUS: ProcessOptions', in milliseconds. After that
// it trains anew in another job as that rank, if one is given; else it ends with status 1.
#include <tutti/tests/distributed/processes/training_process.h>

#include <tutti/distributed/process_group.h>
#include <tutti/distributed/sharded/sharded_optimizer.h>
#include <tutti/distributed/sync_server.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::chrono::minutes kLong(1);

std::string variable(const char* name) {
  const char* const said = std::getenv(name);
  return said == nullptr ? "" : said;
}

std::chrono::milliseconds milliseconds_of(const char* name, int usual) {
  const std::string said = variable(name);
  return std::chrono::milliseconds(said.empty() ? usual : std::stoi(said));
}

SyncOptions trained_options() {
  const std::string way = variable("TRAINED_WAY");
  SyncOptions options;
  if (way == "double_buffered") options.overlap = Overlap::double_buffered;
  if (way == "optimizer_state") options.sharding = Sharding::optimizer_state;
  if (way == "gradients") options.sharding = Sharding::gradients;
  if (way == "hangs") options.fail_after = std::chrono::milliseconds(1500);
  if (way == "compressed") options.compression = trained_compression();
  return options;
}

void take_steps(GradientSync& sync, TrainedModel& replica, auto& optimizer, std::size_t number, std::size_t place,
                int steps) {
  const Device device = sync.devices()[place];
  for (int s = 0; s < steps; ++s) {
    train_step(sync, replica, optimizer, device, number, s);
    if (place == 0 && s % 100 == 99) std::printf("step %d\n", s + 1);
    if (number == 1 && s == 100 && variable("TRAINED_WAY") == "hangs") std::this_thread::sleep_for(kLong);
  }
  if (sync.server().options().overlap == Overlap::double_buffered && sync.flush(device)) optimizer.step();
  sync.leave(device);
}

void train(const LaunchPlace& place, std::size_t devices, int steps, const std::string& engine, std::size_t first) {
  ProcessGroup processes(place, {.rendezvous = milliseconds_of("TRAINED_RENDEZVOUS", 60'000),
                                 .silence = milliseconds_of("TRAINED_SILENCE", 2000),
                                 .engine = engine == "automatic" ? ProcessEngine::automatic
                                           : engine == "mpi"     ? ProcessEngine::mpi
                                                                 : ProcessEngine::network,
                                 .encrypt = engine != "plain"});
  std::vector<Device> own;
  for (std::size_t i = 0; i < devices; ++i) own.push_back(cpu(static_cast<std::uint16_t>(i)));
  std::printf("ready\n");
  if (variable("TRAINED_WAY") == "absent") std::this_thread::sleep_for(kLong);
  GradientSync sync(processes, own, trained_options());
  std::printf("engine %s\n", processes.engine());
  auto replicas = sync.replicate(TrainedModel(Generator(3)));
  std::vector<std::string> errors(devices);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < devices; ++i)
    threads.emplace_back([&, i] {
      try {
        if (sync.server().options().sharding != Sharding::none) {
          ShardedOptimizer optimizer(sync, own[i], trained_sgd);
          take_steps(sync, replicas[i], optimizer, first + i, i, steps);
        } else {
          take_steps(sync, replicas[i], *trained_sgd(replicas[i].parameters()), first + i, i, steps);
        }
      } catch (const std::exception& error) {
        errors[i] = error.what();
        std::printf("failed: %s\n", error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors)
    if (!error.empty()) throw std::runtime_error(error);
  std::printf("digest %llu\n", static_cast<unsigned long long>(digest_of(replicas[0])));
}

}  // namespace

int main(int count, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (count != 5 && count != 8) return 2;
  const std::size_t devices = std::stoul(arguments[1]);
  const bool is_by_rank = arguments[4] == std::string("by_rank");
  const std::size_t first =
      is_by_rank ? devices * static_cast<std::size_t>(launch_place().rank) : std::stoul(arguments[4]);
  const auto is_trained = [&](const LaunchPlace& place, const char* steps) {
    try {
      train(place, devices, std::stoi(steps), arguments[3], first);
      return true;
    } catch (const std::exception& error) {
      std::printf("error: %s\n", error.what());
      return false;
    }
  };
  LaunchPlace place = launch_place();
  if (is_trained(place, arguments[2])) return 0;
  if (count != 8) return 1;
  place.rank = place.local_rank = std::stoi(arguments[5]);
  place.size = place.local_size = std::stoi(arguments[6]);
  place.job += kSecondJob;
  return is_trained(place, arguments[7]) ? 0 : 1;
}
