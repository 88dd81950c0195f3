// SPDX-License-Identifier: Apache-2.0
// A convolutional network learns handwritten digits on several devices, its gradients reduced while backward still
// runs.
#include <tutti/examples/digits_training.h>
#include <tutti/examples/given_options.h>
#include <tutti/examples/several_processes.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <string>

namespace {

std::string exposed(const digits::ReductionCost& cost) {
  if (!cost.exposed) return "not measured: processes that train together cannot do without";
  if (std::abs(*cost.exposed) <= cost.noise) return fmt::format("none above the noise of {:.2f} ms a step", cost.noise);
  if (*cost.exposed < 0)
    return fmt::format("none that can be told: steps without reductions took {:.2f} ms longer (busy cores?)",
                       -*cost.exposed);
  return fmt::format("{:.2f} ms a step (+- {:.2f}), against steps without reductions", *cost.exposed, cost.noise);
}

void print(const digits::Options& options, const digits::Result& result) {
  const auto& cost = result.reduction;
  const auto line = [](const char* name, const std::string& text) { fmt::print("{:<24}{}\n", name, text); };
  fmt::print("\n");
  line("devices", fmt::format("{}; batch {} per device", result.devices, options.batch));
  if (result.processes > 1) line("processes", fmt::format("{}, each with such devices", result.processes));
  line("training",
       fmt::format("{:.2f} s, {} steps, {:.0f} images/s", result.seconds, result.steps, result.images_per_second));
  if (options.devices > 1 || result.processes > 1) {
    line("reduction",
         fmt::format("{:.3f} ms a step, {:.0f} % of its time hidden behind backward", cost.busy, 100.0 * cost.hidden));
    line("exposed", exposed(cost));
    line("waiting for the slowest", fmt::format("{:.3f} ms a step", cost.skew));
  }
  line("written",
       fmt::format("{0}/metrics.jsonl, run.json and trace.json: tutti report {0} shows them, ui.perfetto.dev the trace",
                   options.output));
  fmt::print("test accuracy: {:.1f} %\n", 100.0 * result.test_accuracy);
}

}  // namespace

int main(int argc, char** argv) {
  digits::Options options;
  CLI::App app("Trains a convolutional network on 8x8 handwritten digits, data-parallel.", "./dev demo");
  app.option_defaults()->always_capture_default();
  app.add_option("--network", options.network, "lenet or resnet");
  app.add_option("--device", options.device, "kind of device: cpu or cuda");
  app.add_option("--devices", options.devices, "how many, each driven by a thread")->check([](const std::string& text) {
    return text == "0" || text.starts_with("-") ? "--devices " + text + ": at least one is needed" : std::string();
  });
  app.add_option("--processes", options.processes,
                 "how many train together, each with as many devices; by default those of a launcher, else one");
  app.add_option("--epochs", options.epochs, "passes over the training data; the 20 % held out are shown after each");
  app.add_option("--batch", options.batch, "examples per device and step");
  app.add_option("--seed", options.seed, "of the split, the shuffles and the first weights")
      ->check([](const std::string& text) { return text.starts_with("-") ? text + " is negative" : ""; });
  app.add_option("--threads,--threads-per-device", options.threads,
                 "threads that share each CPU device's loops; by default TUTTI_CPU_THREADS, else 1");
  app.add_option("--learning-rate", options.learning_rate, "of AdamW at the start; it falls along half a cosine");
  app.add_option("--data", options.data, "the digits, as CSV, plain or gzipped");
  app.add_option("--output", options.output, "folder for metrics and trace");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "digits: {}\n", error.what());
    return 2;
  }
  try {
    examples::start_processes(options.processes, argc, argv);
    options.given = examples::given_options(app);
    const digits::Result result = digits::train(options);
    if (!result.interrupted.empty()) {
      if (result.first_process) fmt::print(stderr, "{}\n", result.interrupted);
      return 130;  // 128 + SIGINT, as shells have it
    }
    if (result.first_process) print(options, result);
  } catch (const std::exception& error) {
    fmt::print(stderr, "digits: {}\n", error.what());
    return 1;
  }
  return 0;
}
