// SPDX-License-Identifier: Apache-2.0
// gpu_bench [--device cuda:0] [--only TABLE] ...: speed of one device. See ./dev gpu.
#include <tutti/benches/cuda/measurement.h>

#include <tutti/backend/raise.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>

namespace {

using namespace tutti;
using namespace tutti::bench;

struct Table {
  const char* name;
  void (*measure)(const BenchOptions&, BenchResults&);
};

constexpr Table kTables[] = {
    {"memory", bench_memory_bound},     {"matmul", bench_products},   {"attention", bench_attention},
    {"parts", bench_transformer_parts}, {"training", bench_training}, {"gpt2", bench_gpt2},
};

std::string names_of_tables() {
  std::string names;
  for (const Table& table : kTables) names += (names.empty() ? "" : ", ") + std::string(table.name);
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  BenchOptions options;
  std::string device = "cuda:0";
  std::string only;
  CLI::App app("Speed of Tutti's kernels and training steps on one device");
  app.add_option("--device", device, "cuda:0, or cpu:0 for a rehearsal");
  app.add_option("--only", only, "one table: " + names_of_tables());
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
    bool any = false;
    for (const Table& table : kTables)
      if (only.empty() || only == table.name) table.measure(options, results), any = true;
    if (!any) raise("[bench] there is no table \"{}\"; there are {}", only, names_of_tables());
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
