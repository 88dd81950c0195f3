// SPDX-License-Identifier: Apache-2.0
// One rank of a job, as launchers start it: training_process DEVICES STEPS [network | plain]. Prints "digest N" at its
// end, "step N" after every hundred steps, or "error: TEXT", and then ends with status 1.
#include <tutti/tests/distributed/processes/training_process.h>

#include <tutti/distributed/process_group.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

void train(std::size_t devices, int steps, const std::string& engine, std::size_t first) {
  ProcessGroup processes = ProcessGroup::from_environment(
      {.rendezvous = std::chrono::seconds(20),
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
  if (count != 5) return 2;
  try {
    train(std::stoul(arguments[1]), std::stoi(arguments[2]), arguments[3], std::stoul(arguments[4]));
  } catch (const std::exception& error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
  return 0;
}
