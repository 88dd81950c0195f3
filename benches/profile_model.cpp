// SPDX-License-Identifier: Apache-2.0
// Says where the time of a model's training steps goes: ./dev profile runs it.
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/profile.h>
#include <tutti/backend/progress.h>
#include <tutti/backend/registry.h>
#include <tutti/benches/models.h>
#include <tutti/nn/loss.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

using namespace tutti;
using namespace tutti::bench;

namespace {

struct Options {
  std::string model = kSmallMlp.name;
  int steps = 20;
  int threads = 1;
  std::string type = "f32";
  std::string trace;
  bool shapes = false;
  bool operations = false;
};

std::string known_models() {
  std::string names;
  for (const Workload* each : kWorkloads) names += (names.empty() ? "" : ", ") + std::string(each->name);
  return names;
}

Options parse(CLI::App& app, int count, char** words) {
  Options options;
  const auto known = [](const std::string& name) {
    return workload_of(name) != nullptr ? "" : fmt::format("no model is called {}: known are {}", name, known_models());
  };
  app.add_option("MODEL", options.model, "one of " + known_models())->check(CLI::Validator(known, ""));
  app.add_option("--steps", options.steps, "steps that are profiled")->check(CLI::Range(1, 1000000));
  app.add_option("--threads", options.threads, "threads of the CPU device")->check(CLI::Range(1, 1024));
  app.add_option("--type", options.type, "f32, or bf16: forward and loss under Autocast")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--trace", options.trace, "file for Perfetto (https://ui.perfetto.dev)");
  app.add_flag("--shapes", options.shapes, "a row for each kernel and shapes");
  app.add_flag("--operations", options.operations, "a row for each operation on tensors, and its gradient")
      ->excludes("--shapes");
  app.parse(count, words);
  return options;
}

/// What so many threads reach together.
ProcessorLimits limits_of(int threads) {
  std::vector<ProcessorLimits> each(static_cast<std::size_t>(threads));
  std::vector<std::thread> measuring;
  for (ProcessorLimits& limits : each) measuring.emplace_back([&limits] { limits = measure_processor_limits(); });
  for (std::thread& thread : measuring) thread.join();
  ProcessorLimits all = each.front();
  for (CopyLimit& copy : all.copies) copy.bytes *= threads;
  for (std::size_t i = 1; i < each.size(); ++i) {
    all.flops += each[i].flops;
    all.bf16_flops += each[i].bf16_flops;
    for (std::size_t size = 0; size < all.copies.size(); ++size)
      all.copies[size].bytes_per_second += each[i].copies[size].bytes_per_second;
  }
  return all;
}

void profile(const Options& options) {
  const Workload& workload = *workload_of(options.model);
  set_cpu_threads(cpu(), options.threads);
  Generator random(1);
  Sequential model = workload.make_model(random);
  const auto optimizer = workload.make_optimizer(model.parameters());
  const auto [inputs, targets] = workload.make_batch(random, cpu());
  const auto step = [&] {
    optimizer->zero_grad();
    Tensor loss;
    {
      const Autocast narrow(options.type == "bf16" ? DType::bf16 : DType::f32);
      loss = cross_entropy(model(inputs), targets);
    }
    backward(loss);
    optimizer->step();
  };
  Progress progress(2 * std::int64_t{options.steps},
                    {.label = workload.name, .unit = "steps", .quiet = std::chrono::seconds(1)});
  std::int64_t done = 0;
  for (int i = 0; i < 2; ++i) step();  // makes what is made once
  synchronize(cpu());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < options.steps; ++i) {
    step();
    ++done;
    progress.update({.step = done, .examples = done});
  }
  synchronize(cpu());
  const std::chrono::duration<double, std::milli> plain = std::chrono::steady_clock::now() - begin;
  Profile profile;
  for (int i = 0; i < options.steps; ++i) {
    {
      const ProfiledScope on(profile);
      step();
    }
    ++done;
    progress.update({.step = done, .examples = done});
  }
  progress.hide();
  fmt::print("{}, {}, {} thread{}: a step takes {:.3f} ms when it is not profiled\n", workload.name, options.type,
             options.threads, options.threads == 1 ? "" : "s", plain.count() / options.steps);
  const ProfileRows rows = options.shapes       ? ProfileRows::shapes
                           : options.operations ? ProfileRows::operations
                                                : ProfileRows::kernels;
  fmt::print("{}", profile.table({.rows = rows, .limits = limits_of(options.threads)}));
  if (!options.trace.empty()) profile.write_trace(options.trace);
}

}  // namespace

int main(int count, char** words) {
  CLI::App app("Where the time of a model's training steps goes.", "./dev profile");
  try {
    profile(parse(app, count, words));
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "profile: {}\n", error.what());
    return 1;
  }
}
