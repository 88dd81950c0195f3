// SPDX-License-Identifier: Apache-2.0
// One rank of a job that the campaigns disturb: long_training STEPS (automatic | network | plain) SILENCE RENDEZVOUS,
// both in milliseconds. MEETING_DELAY: milliseconds for which it lets the others wait before it joins the group. Times
// are CLOCK_MONOTONIC's, in nanoseconds. Prints
//   engine NAME              when the processes have found each other
//   step N at TIME us A B …  after every hundred steps: how long each of them took, in microseconds
//   trained LOSS DIGEST      after the last step: this rank's loss, and a digest of all parameters, every rank's
//   closed at TIME           when it has left the others
//   error at TIME: TEXT      and then ends with status 1
#include <tutti/tests/distributed/processes/training_process.h>

#include <tutti/distributed/process_group.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr int kStepsOfLine = 100;
constexpr Device kDevice{DeviceKind::cpu, 0};

std::int64_t nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

float loss_of(const TrainedModel& model, int rank) {
  const Inference inference;
  Generator random(7, static_cast<std::uint64_t>(rank));
  const Tensor y = model.forward(Tensor(random.normal({6, 16}, DType::f32, kDevice)));
  return mean(y * y).item<float>();
}

void train(int steps, const ProcessOptions& options) {
  ProcessGroup processes = ProcessGroup::from_environment(options);
  const char* const delay = std::getenv("MEETING_DELAY");
  if (delay != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(delay)));
  GradientSync sync(processes, {kDevice});
  std::printf("engine %s\n", processes.engine());
  auto replicas = sync.replicate(TrainedModel(Generator(3)));
  TrainedModel& model = replicas[0];
  Sgd optimizer(model.parameters(), 0.05, {.momentum = 0.9});
  std::string times;
  std::int64_t before = nanoseconds();
  for (int step = 0; step < steps; ++step) {
    train_step(sync, model, optimizer, kDevice, static_cast<std::size_t>(processes.rank()), step);
    const std::int64_t now = nanoseconds();
    times += " " + std::to_string((now - before) / 1000);
    before = now;
    if ((step + 1) % kStepsOfLine != 0) continue;
    std::printf("step %d at %lld us%s\n", step + 1, static_cast<long long>(now), times.c_str());
    times.clear();
  }
  sync.leave(kDevice);
  std::printf("trained %.9g %llu\n", static_cast<double>(loss_of(model, processes.rank())),
              static_cast<unsigned long long>(digest_of(model)));
}

}  // namespace

int main(int count, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (count != 5) return 2;
  try {
    const std::string engine = arguments[2];
    train(std::stoi(arguments[1]), {.rendezvous = std::chrono::milliseconds(std::stoi(arguments[4])),
                                    .silence = std::chrono::milliseconds(std::stoi(arguments[3])),
                                    .engine = engine == "automatic" ? ProcessEngine::automatic : ProcessEngine::network,
                                    .encrypt = engine != "plain"});
  } catch (const std::exception& error) {
    std::printf("error at %lld: %s\n", static_cast<long long>(nanoseconds()), error.what());
    return 1;
  }
  std::printf("closed at %lld\n", static_cast<long long>(nanoseconds()));
  return 0;
}
