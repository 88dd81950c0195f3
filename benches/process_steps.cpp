// SPDX-License-Identifier: Apache-2.0
// A training step of several devices, in as many processes as a launcher has started:
//   process_steps MODEL DEVICES STEPS
// prints one line of JSON, of rank 0: the median time of a step. What it is compared with: peers/ddp_steps.py.
#include <tutti/benches/models.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

using namespace tutti;
using namespace tutti::bench;

int main(int count, char** words) {
  const Workload* const workload = count == 4 ? workload_of(words[1]) : nullptr;
  const int local = count == 4 ? std::atoi(words[2]) : 0;
  const int steps = count == 4 ? std::atoi(words[3]) : 0;
  if (workload == nullptr || local < 1 || steps < 1) {
    std::cerr << "usage: process_steps MODEL DEVICES STEPS; models are those of benches/models.h\n";
    return 2;
  }
  ProcessGroup processes = ProcessGroup::from_environment();
  std::vector<Device> devices;
  for (int i = 0; i < local; ++i) devices.push_back(cpu(static_cast<std::uint16_t>(i)));
  GradientSync sync(processes, devices);
  Generator random(1);
  auto replicas = sync.replicate(workload->make_model(random));
  std::vector<double> milliseconds;
  on_every_device(sync, [&](std::size_t device) {
    const auto optimizer = workload->make_optimizer(replicas[device].parameters());
    Generator own(3, static_cast<std::uint64_t>(processes.rank() * local) + device);
    const auto [inputs, targets] = workload->make_batch(own, devices[device]);
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps + steps / 10 + 1; ++i) {
      optimizer->zero_grad();
      auto step = sync.step(devices[device]);
      step.backward(cross_entropy(replicas[device].forward(inputs), targets));
      optimizer->step();
      synchronize(devices[device]);
      const auto end = std::chrono::steady_clock::now();
      if (device == 0 && i > steps / 10)  // the first are not timed
        milliseconds.push_back(std::chrono::duration<double, std::milli>(end - begin).count());
      begin = end;
    }
    sync.leave(devices[device]);
  });
  std::ranges::sort(milliseconds);
  if (processes.rank() == 0)
    std::cout << "{\"model\": \"" << workload->name << "\", \"processes\": " << processes.size()
              << ", \"devices\": " << local << ", \"ms\": " << milliseconds[milliseconds.size() / 2] << "}\n";
}
