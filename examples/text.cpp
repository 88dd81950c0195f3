// SPDX-License-Identifier: Apache-2.0
// A character-level language model, GPT or LSTM, learns any text file on several devices, and writes some of its own.
#include <tutti/examples/given_options.h>
#include <tutti/examples/language_models.h>
#include <tutti/examples/several_processes.h>
#include <tutti/examples/text_training.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <string>

namespace {

/// Sizes of a known model for options that were not given.
void apply_preset(const CLI::App& app, const std::string& preset, text::Options& options) {
  if (preset.empty()) return;
  if (options.model != "gpt") throw CLI::ValidationError("--preset", preset + " is a gpt, not " + options.model);
  const auto apply = [&](const char* name, auto& option, auto value) {
    if (app.count(name) == 0) option = value;
  };
  apply("--vocabulary", options.vocabulary, text::kGpt2.vocabulary);
  apply("--context", options.context, text::kGpt2.context);
  apply("--features", options.features, text::kGpt2.features);
  apply("--layers", options.layers, text::kGpt2.layers);
  apply("--heads", options.heads, text::kGpt2.heads);
  apply("--tied", options.tied, text::kGpt2.tied);
  apply("--initial-deviation", options.initial_deviation, text::kGpt2.deviation);
  apply("--dropout", options.dropout, text::kGpt2.dropout);
  apply("--learning-rate", options.learning_rate, 6e-4);
}

}  // namespace

int main(int argc, char** argv) {
  text::Options options;
  std::string preset;
  CLI::App app("Trains a character-level language model on a text file, data-parallel, and samples from it.",
               "./dev demo text");
  app.option_defaults()->always_capture_default();
  app.add_option("--text", options.text, "the file to learn")->required();
  app.add_option("--model", options.model, "gpt or lstm");
  app.add_option("--preset", preset,
                 "gpt2: the sizes of GPT-2 124M, and a learning rate for it, where not given otherwise")
      ->check([](const std::string& name) { return name == "gpt2" ? "" : "--preset " + name + ": there is gpt2"; });
  app.add_option("--vocabulary", options.vocabulary, "rows of the table of characters; 0: as many as the text has");
  app.add_option("--device", options.device, "kind of device: cpu or cuda");
  app.add_option("--devices", options.devices, "how many, each driven by a thread")->check([](const std::string& text) {
    return text == "0" || text.starts_with("-") ? "--devices " + text + ": at least one is needed" : std::string();
  });
  app.add_option("--threads,--threads-per-device", options.threads,
                 "threads that share each CPU device's loops; by default TUTTI_CPU_THREADS, else 1");
  app.add_option("--processes", options.processes,
                 "how many train together, each with as many devices; by default those of a launcher, else one");
  app.add_option("--steps", options.steps, "of training");
  app.add_option("--batch", options.batch, "sequences per device and step");
  app.add_option("--context", options.context, "characters of a sequence");
  app.add_option("--features", options.features, "width of the model");
  app.add_option("--layers", options.layers, "depth of the model");
  app.add_option("--heads", options.heads, "of attention, gpt only");
  app.add_option("--dropout", options.dropout, "share of elements that are dropped in training");
  app.add_flag("--tied,!--untied", options.tied, "the head is the table of characters, gpt only");
  app.add_option("--initial-deviation", options.initial_deviation,
                 "of the first weights, as GPT-2's, gpt only; 0: what the layers start with");
  app.add_option("--autocast", options.autocast, "type of forward's products: f32 or bf16");
  app.add_option("--learning-rate", options.learning_rate, "of AdamW at its highest");
  app.add_option("--lowest-rate", options.lowest_rate, "what the learning rate falls to, a share of the highest");
  app.add_option("--weight-decay", options.weight_decay, "of matrices; biases and norms have none");
  app.add_option("--seed", options.seed, "of the first weights, the sequences and the sample")
      ->check([](const std::string& text) { return text.starts_with("-") ? text + " is negative" : ""; });
  app.add_option("--output", options.output, "folder for log.jsonl and checkpoints");
  app.add_option("--report-every", options.report_every, "steps between two lines of figures");
  app.add_option("--checkpoint-every", options.checkpoint_every, "steps between two checkpoints; 0: none");
  app.add_flag("--resume", options.resume, "goes on from the newest checkpoint in --output, if there is one");
  app.add_option("--sample", options.sample, "characters to write at the end");
  app.add_option("--prompt", options.prompt, "what the sample begins with; by default the text's first character");
  app.add_option("--temperature", options.temperature, "below 1: likelier characters; above: odder ones");
  try {
    app.parse(argc, argv);
    apply_preset(app, preset, options);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "text: {}\n", error.what());
    return 2;
  }
  try {
    examples::start_processes(options.processes, argc, argv);
    options.given = examples::given_options(app);
    const text::Result result = text::train(options);
    if (!result.interrupted.empty()) {
      if (result.first_process) fmt::print(stderr, "{}\n", result.interrupted);
      return 130;  // 128 + SIGINT, as shells have it
    }
    if (!result.first_process) return 0;
    fmt::print("{}\n\n", result.sample);
    fmt::print("{:<24}{} parameters, {:.0f} characters/s\n", options.model, result.parameters,
               result.characters_per_second);
    fmt::print("{:<24}{:.3f} nats a character\n", "training loss", result.training_loss);
    fmt::print("validation loss: {:.3f} nats a character (perplexity {:.2f})\n", result.validation_loss,
               std::exp(result.validation_loss));
  } catch (const std::exception& error) {
    fmt::print(stderr, "text: {}\n", error.what());
    return 1;
  }
  return 0;
}
