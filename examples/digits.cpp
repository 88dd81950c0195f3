// SPDX-License-Identifier: Apache-2.0
// A convolutional network learns handwritten digits on several devices, its gradients reduced while backward still
// runs.
#include <tutti/examples/digits_training.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <exception>

namespace {

void print(const digits::Options& options, const digits::Result& result) {
  const auto& cost = result.reduction;
  fmt::print("\n");
  const std::string threads =
      options.device == "cpu" ? fmt::format("{} thread(s) each, ", options.threads_per_device) : "";
  fmt::print("{:<24}{} x {}, {}batch {} per device\n", "devices", options.devices, options.device, threads,
             options.batch);
  fmt::print("{:<24}{:.2f} s, {} steps, {:.0f} images/s\n", "training", result.seconds, result.steps,
             result.images_per_second);
  fmt::print("{:<24}{:.3f} ms a step: {:.3f} ms hidden, {:.3f} ms exposed (+- {:.3f})\n", "reduction", cost.busy,
             cost.hidden(), cost.exposed, cost.noise);
  fmt::print("{:<24}{:.3f} ms a step\n", "waiting for the slowest", cost.skew);
  fmt::print("{:<24}{:.0f} % of the recorded steps reduced during backward\n", "overlap",
             100.0 * result.overlapped_steps);
  fmt::print("{:<24}{}/metrics.jsonl, {}/trace.json (open in ui.perfetto.dev)\n", "written", options.output,
             options.output);
  fmt::print("test accuracy: {:.1f} %\n", 100.0 * result.test_accuracy);
}

}  // namespace

int main(int argc, char** argv) {
  digits::Options options;
  CLI::App app("Trains a convolutional network on 8x8 handwritten digits, data-parallel.");
  app.option_defaults()->always_capture_default();
  app.add_option("--network", options.network, "lenet or resnet");
  app.add_option("--device", options.device, "kind of device: cpu or cuda");
  app.add_option("--devices", options.devices, "how many, each driven by a thread")->check([](const std::string& text) {
    return text == "0" || text.starts_with("-") ? "--devices " + text + ": at least one is needed" : std::string();
  });
  app.add_option("--epochs", options.epochs, "passes over the training data; the 20 % held out are shown after each");
  app.add_option("--batch", options.batch, "examples per device and step");
  app.add_option("--seed", options.seed, "of the split, the shuffles and the first weights")
      ->check([](const std::string& text) { return text.starts_with("-") ? text + " is negative" : ""; });
  app.add_option("--threads-per-device", options.threads_per_device, "threads that share each CPU device's loops");
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
    print(options, digits::train(options));
  } catch (const std::exception& error) {
    fmt::print(stderr, "digits: {}\n", error.what());
    return 1;
  }
  return 0;
}
