// SPDX-License-Identifier: Apache-2.0
// What reporting adds to a training step: the digits step, and after each one its values put and written.
#include <tutti/autodiff/backward.h>
#include <tutti/backend/progress.h>
#include <tutti/backend/registry.h>
#include <tutti/benches/models.h>
#include <tutti/benches/samples.h>
#include <tutti/nn/loss.h>
#include <tutti/train/reporting/console_writer.h>
#include <tutti/train/reporting/csv_writer.h>
#include <tutti/train/reporting/json_lines_writer.h>
#include <tutti/train/reporting/run_statistics.h>
#include <tutti/train/reporting/tensorboard_writer.h>

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>

using namespace tutti;
using namespace tutti::bench;

namespace {

using WriterMaker = std::unique_ptr<EventWriter> (*)(const std::string& folder);

/// Eight values, as a trainer puts them.
void put_step(EventStorage& storage, std::int64_t iteration, double loss) {
  storage.set_iteration(iteration);
  storage.put_scalars({{"total_loss", loss}, {"loss_a", 0.7 * loss}, {"loss_b", 0.3 * loss}, {"time", 1e-3 * loss}});
  storage.put_scalars({{"data_time", 1e-5 * loss}, {"accuracy", loss / 3.0}});
  storage.put_scalars({{"lr", 1e-3}, {"memory", 1 << 24}}, EventStorage::Smoothing::none);
}

/// Runs digits steps and `report` behind each; shows what a call of it takes in the mean, and its share of a step.
void beside_digits_step(benchmark::State& state, const std::function<void(std::int64_t step, double loss)>& report) {
  const Workload& workload = kDigitsCnn;
  Generator random(1);
  Sequential model = workload.make_model(random);
  const auto optimizer = workload.make_optimizer(model.parameters());
  const auto [inputs, targets] = workload.make_batch(random, cpu());
  double reporting = 0.0;
  double training = 0.0;
  std::int64_t step = 0;
  for (auto _ : state) {
    const double start = processor_seconds();
    const Tensor loss = cross_entropy(model.forward(inputs), targets);
    backward(loss);
    optimizer->step();
    optimizer->zero_grad();
    const double value = loss.item<double>();
    const double trained = processor_seconds();  // a system call: the next one finds its code in the caches
    const double again = processor_seconds();
    report(step++, value);
    reporting += processor_seconds() - again;
    training += trained - start;
  }
  state.counters["report_us"] = 1e6 * reporting / static_cast<double>(step);
  state.counters["step_ms"] = 1e3 * training / static_cast<double>(step);
  state.counters["percent"] = 100.0 * reporting / training;
}

void reporting_writer(benchmark::State& state, WriterMaker make) {
  const auto folder = std::filesystem::temp_directory_path() / ("tutti-bench-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  {
    EventStorage storage;
    const auto writer = make(folder.string());
    beside_digits_step(state, [&](std::int64_t step, double loss) {
      put_step(storage, step, loss);
      if (writer && step % state.range(0) == 0) writer->write(storage);
    });
  }
  std::filesystem::remove_all(folder);
}

void reporting_memory(benchmark::State& state) {
  EventStorage storage;
  const Device devices[] = {cpu()};
  beside_digits_step(state, [&](std::int64_t step, double) {
    storage.set_iteration(step);
    put_memory(storage, devices);
  });
}

void reporting_progress(benchmark::State& state) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(std::fopen("/dev/null", "w"), &std::fclose);
  Progress progress(1'000'000, {.output = output.get(), .terminal = state.range(0) == 1, .width = 100});
  beside_digits_step(state, [&](std::int64_t step, double loss) {
    progress.update({.step = step, .examples = 64 * step, .loss = loss, .accuracy = 0.5});
  });
}

std::unique_ptr<EventWriter> nothing(const std::string&) { return nullptr; }
std::unique_ptr<EventWriter> json_lines(const std::string& folder) {
  return std::make_unique<JsonLinesWriter>(folder + "/log.jsonl");
}
std::unique_ptr<EventWriter> csv(const std::string& folder) { return std::make_unique<CsvWriter>(folder + "/log.csv"); }
std::unique_ptr<EventWriter> tensorboard_events(const std::string& folder) {
  return std::make_unique<TensorBoardWriter>(folder);
}
std::unique_ptr<EventWriter> console(const std::string& folder) {
  static std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(nullptr, &std::fclose);
  output.reset(std::fopen((folder + "/console").c_str(), "w"));
  return std::make_unique<ConsoleWriter>(ConsoleWriterOptions{.iterations = 1'000'000, .output = output.get()});
}

void every_step_or_twentieth(benchmark::internal::Benchmark* bench) {
  bench->ArgName("every")->Arg(1)->Arg(20)->Iterations(400)->UseRealTime();
}

BENCHMARK_CAPTURE(reporting_writer, put_only, nothing)->Apply(every_step_or_twentieth);
BENCHMARK_CAPTURE(reporting_writer, json_lines, json_lines)->Apply(every_step_or_twentieth);
BENCHMARK_CAPTURE(reporting_writer, csv, csv)->Apply(every_step_or_twentieth);
BENCHMARK_CAPTURE(reporting_writer, tensorboard, tensorboard_events)->Apply(every_step_or_twentieth);
BENCHMARK_CAPTURE(reporting_writer, console, console)->Apply(every_step_or_twentieth);
BENCHMARK(reporting_memory)->UseRealTime();
BENCHMARK(reporting_progress)->ArgName("terminal")->Arg(0)->Arg(1)->UseRealTime();

}  // namespace
