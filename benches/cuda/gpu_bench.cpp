// SPDX-License-Identifier: Apache-2.0
// gpu_bench [--device cuda:0] [--only memory|matmul|training] ...: speed of one device. See ./dev gpu.
#include <tutti/benches/cuda/measurement.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  using namespace tutti;
  using namespace tutti::bench;
  BenchOptions options;
  std::string device = "cuda:0";
  std::string only;
  CLI::App app("Speed of Tutti's kernels and training steps on one device");
  app.add_option("--device", device, "cuda:0, or cpu:0 for a rehearsal");
  app.add_option("--only", only, "one table: memory, matmul or training");
  app.add_option("--bytes", options.bytes, "of an array in the table of memory-bound kernels")
      ->check(CLI::Range(4096L, 1L << 34));
  app.add_option("--size", options.size, "of square matrices")->check(CLI::Range(16, 1 << 15));
  app.add_option("--steps", options.steps, "of training in one sample")->check(CLI::Range(1, 100000));
  app.add_option("--seconds", options.seconds, "that a row is measured for")->check(CLI::PositiveNumber);
  app.add_option("--output", options.output, "JSON file");
  CLI11_PARSE(app, argc, argv);
  try {
    options.device = parse_device(device);
    backend_for(options.device).check(options.device);
    BenchResults results(options);
    if (only.empty() || only == "memory") bench_memory_bound(options, results);
    if (only.empty() || only == "matmul") bench_products(options, results);
    if (only.empty() || only == "training") bench_training(options, results);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
