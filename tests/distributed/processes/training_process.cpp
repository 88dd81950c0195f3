// SPDX-License-Identifier: Apache-2.0
// One rank of a job, as launchers start it: training_process DEVICES STEPS automatic|network|plain FIRST [RANK SIZE
// STEPS]. FIRST is the number of its first device, for data. Prints "digest N" at its end, "step N" after every hundred
// steps, or "error: TEXT". After that it trains anew in another job as that rank, if one is given; else it ends with
// status 1.
#include <tutti/tests/distributed/processes/training_process.h>

#include <tutti/distributed/process_group.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

void train(const LaunchPlace& place, std::size_t devices, int steps, const std::string& engine, std::size_t first) {
  ProcessGroup processes(place, {.rendezvous = std::chrono::seconds(20),
                                 .engine = engine == "automatic" ? ProcessEngine::automatic : ProcessEngine::network,
                                 .encrypt = engine != "plain"});
  std::vector<Device> own;
  for (std::size_t i = 0; i < devices; ++i) own.push_back(cpu(static_cast<std::uint16_t>(i)));
  GradientSync sync(processes, own);
  std::printf("engine %s\n", processes.engine());
  auto replicas = sync.replicate(TrainedModel(Generator(3)));
  std::vector<std::string> errors(devices);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < devices; ++i)
    threads.emplace_back([&, i] {
      try {
        Sgd optimizer(replicas[i].parameters(), 0.05, {.momentum = 0.9});
        for (int s = 0; s < steps; ++s) {
          train_step(sync, replicas[i], optimizer, own[i], first + i, s);
          if (i == 0 && s % 100 == 99) std::printf("step %d\n", s + 1);
        }
        sync.leave(own[i]);
      } catch (const std::exception& error) {
        errors[i] = error.what();
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
  const std::size_t first = std::stoul(arguments[4]);
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
