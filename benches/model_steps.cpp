// SPDX-License-Identifier: Apache-2.0
// A training step of one device:
//   model_steps MODEL THREADS STEPS f32|bf16
// prints one line of JSON: the median times of a step in milliseconds, the processor's and by the clock, and memory in
// MB, the process's peak and what the steps add to what stood before them. bf16: forward and loss under Autocast. What
// it is compared with: peers/torch_steps.py.
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/registry.h>
#include <tutti/benches/models.h>
#include <tutti/nn/loss.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

using namespace tutti;
using namespace tutti::bench;

namespace {

double processor_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

double clock_milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Resident memory in MB: "VmRSS", now, or "VmHWM", the most since the process began or forget_peak was called.
double megabytes(const std::string& which) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(which)) return std::stod(line.substr(which.size() + 1)) / 1024;
  return 0;
}

void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

double median(std::vector<double>& samples) {
  std::ranges::sort(samples);
  const std::size_t half = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
}

}  // namespace

int main(int count, char** words) {
  const Workload* const workload = count == 5 ? workload_of(words[1]) : nullptr;
  const int threads = count == 5 ? std::atoi(words[2]) : 0;
  const int steps = count == 5 ? std::atoi(words[3]) : 0;
  const std::string_view type = count == 5 ? words[4] : "";
  if (workload == nullptr || threads < 1 || steps < 1 || (type != "f32" && type != "bf16")) {
    std::cerr << "usage: model_steps MODEL THREADS STEPS f32|bf16; models are those of benches/models.h\n";
    return 2;
  }
  set_cpu_threads(cpu(), threads);
  Generator random(1);
  Sequential model = workload->make_model(random);
  const auto optimizer = workload->make_optimizer(model.parameters());
  const auto [inputs, targets] = workload->make_batch(random, cpu());
  const double peak_before = megabytes("VmHWM");
  const double before_steps = megabytes("VmRSS");
  forget_peak();
  std::vector<double> processor;
  std::vector<double> clock;
  for (int i = 0; i < steps + steps / 10 + 1; ++i) {
    const double processor_before = processor_milliseconds();
    const double clock_before = clock_milliseconds();
    optimizer->zero_grad();
    Tensor loss;
    {
      const Autocast narrow(type == "bf16" ? DType::bf16 : DType::f32);
      loss = cross_entropy(model(inputs), targets);
    }
    backward(loss);
    optimizer->step();
    synchronize(cpu());
    if (i <= steps / 10) continue;  // the first are not timed
    processor.push_back(processor_milliseconds() - processor_before);
    clock.push_back(clock_milliseconds() - clock_before);
  }
  std::cout << "{\"model\": \"" << workload->name << "\", \"type\": \"" << type << "\", \"threads\": " << threads
            << ", \"processor_ms\": " << median(processor) << ", \"clock_ms\": " << median(clock)
            << ", \"peak_mb\": " << std::max(peak_before, megabytes("VmHWM"))
            << ", \"steps_mb\": " << megabytes("VmHWM") - before_steps << "}\n";
}
