// SPDX-License-Identifier: Apache-2.0
// A wide-and-deep recommender learns a made-up log of clicks, hour by hour, on several devices; interrupted, it goes
// on.
#include <tutti/examples/given_options.h>
#include <tutti/examples/recommender_training.h>
#include <tutti/examples/several_processes.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <exception>

int main(int argc, char** argv) {
  clicks::Options options;
  CLI::App app("Trains a wide-and-deep recommender on a generated click log, data-parallel; run again, it goes on.",
               "./dev demo recommender");
  app.option_defaults()->always_capture_default();
  app.add_option("--output", options.output, "folder for checkpoints and metrics.jsonl; one for each run");
  app.add_option("--device", options.device, "kind of device: cpu or cuda");
  app.add_option("--devices", options.devices, "how many, each driven by a thread")->check([](const std::string& text) {
    return text == "0" || text.starts_with("-") ? "--devices " + text + ": at least one is needed" : std::string();
  });
  app.add_option("--threads,--threads-per-device", options.threads,
                 "threads that share each CPU device's loops; by default TUTTI_CPU_THREADS, else 1");
  app.add_option("--processes", options.processes,
                 "how many train together, each with as many devices; by default those of a launcher, else one");
  app.add_option("--hours", options.hours, "windows of the log");
  app.add_option("--impressions", options.impressions, "in each hour");
  app.add_option("--epochs", options.epochs, "passes over all hours");
  app.add_option("--batch", options.batch, "impressions per device and step");
  app.add_option("--features", options.features, "width of an embedding");
  app.add_option("--learning-rate", options.learning_rate, "of the dense AdamW");
  app.add_option("--sparse-learning-rate", options.sparse_learning_rate, "of the tables' AdamW");
  app.add_option("--seed", options.seed, "of the log and the first weights")->check([](const std::string& text) {
    return text.starts_with("-") ? text + " is negative" : "";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "recommender: {}\n", error.what());
    return 2;
  }
  try {
    examples::start_processes(options.processes, argc, argv);
    options.given = examples::given_options(app);
    const clicks::Result result = clicks::train(options);
    if (!result.first_process) return result.interrupted.empty() ? 0 : 130;
    if (!result.resumed_from.empty()) fmt::print("{:<24}{}\n", "went on from", result.resumed_from);
    if (!result.interrupted.empty()) {
      fmt::print(stderr, "{}\n", result.interrupted);
      return 130;  // 128 + SIGINT, as shells have it
    }
    fmt::print("{:<24}{} steps, {:.0f} impressions/s\n", "training", result.steps, result.examples_per_second);
    fmt::print("{:<24}{} rows of ids seen\n", "tables", result.rows);
    fmt::print("test AUC: {:.4f} (of the true probabilities: {:.4f})\n", result.auc, result.best_auc);
  } catch (const std::exception& error) {
    fmt::print(stderr, "recommender: {}\n", error.what());
    return 1;
  }
  return 0;
}
