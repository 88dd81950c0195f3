// SPDX-License-Identifier: Apache-2.0
#include <tutti/examples/text_training.h>

#include <tutti/backend/progress.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/process_group.h>
#include <tutti/distributed/sync_report.h>
#include <tutti/examples/given_options.h>
#include <tutti/examples/language_models.h>
#include <tutti/examples/recorded_run.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/train/checkpoints/checkpoint_folder.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/data/gzip_file.h>
#include <tutti/train/data/prefetch.h>
#include <tutti/train/data/tokens.h>
#include <tutti/train/data/vocabulary.h>
#include <tutti/train/device_threads.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/iteration_timer.h>
#include <tutti/train/hooks/learning_rate.h>
#include <tutti/train/hooks/periodic_writer.h>
#include <tutti/train/hooks/progress_bar.h>
#include <tutti/train/hooks/run_statistics_hook.h>
#include <tutti/train/hooks/stop_on_interrupt.h>
#include <tutti/train/learner.h>
#include <tutti/train/reporting/console_writer.h>
#include <tutti/train/reporting/json_lines_writer.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

namespace text {

using namespace tutti;

namespace {

Losses losses(Sequential& model, const Batch& batch) {
  return {{"loss", cross_entropy(model(batch.inputs), batch.targets, {.class_axis = -1})}};
}

/// Up in a twentieth of the steps, the first of which is not lost at a rate of 0, and down in the others.
Schedule warm_cosine(double rate, double lowest, std::int64_t steps) {
  const std::int64_t rising = std::max<std::int64_t>(1, steps / 20);
  return Schedule::warm_up(rising, Schedule::cosine(rate, std::max<std::int64_t>(1, steps - rising), lowest),
                           1.0 / static_cast<double>(rising));
}

constexpr std::int64_t kEpoch = 1 << 16;      // windows
constexpr std::int64_t kHeldOutWindows = 64;  // that are looked at

class Run {
 public:
  explicit Run(const Options& options)
      : options_(options),
        devices_(devices_of(options.device, options.devices, options.threads)),
        contents_(read_text(options.text)),
        vocabulary_(contents_),
        tokens_(vocabulary_.encode(contents_)),
        held_out_(tokens_.size() / 10),
        sync_(processes_, devices_),
        batches_(training_batches()),
        held_out_batches_(held_out_batches()),
        learner_(sync_, initial_model(), parts(),
                 {.step = {.max_norm = 1.0, .autocast = autocast(), .metrics_every = options.report_every}}),
        checkpoints_(options.output + "/checkpoints",
                     {.every_steps = options.checkpoint_every, .at_end = options.checkpoint_every > 0}) {
    learner_.add_parts(parts_);
    if (!options_.resume) require_no_checkpoints();
    add_hooks();
    if (options_.resume) resume();
  }

  /// As `train`, and the run's record says how it ended.
  Result recorded_train() {
    if (learner_.writes()) {
      record_ = std::make_unique<RunRecord>(
          options_.output + "/run.json",
          RunDescription{.program = "text",
                         .options = options_.given,
                         .environment = examples::surroundings(devices_text(devices_), processes_.size())});
    }
    return examples::recorded(
        record_, [this] { return train(); }, [this] { return learner_.model().named_parameters(); });
  }

 private:
  using Learner = DataParallelLearner<Sequential, Batch>;

  Result train() {
    if (learner_.writes())
      fmt::print(stderr, "training on {}{}\n", devices_text(devices_),
                 processes_.alone() ? "" : fmt::format(", in each of {} processes", processes_.size()));
    const auto start = std::chrono::steady_clock::now();
    learner_.train({.steps = options_.steps});
    if (interrupt_->interrupted()) return {.first_process = learner_.writes(), .interrupted = what_was_kept()};
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const LearnerTrainer<Batch>& trainer = learner_.main();
    write_chrome_trace(sync_, options_.output + "/trace.json");
    Result result;
    for (const Tensor& parameter : learner_.model().parameters()) result.parameters += parameter.size();
    result.training_loss = learner_.main().storage().latest("total_loss")->value;
    result.characters_per_second =
        static_cast<double>((trainer.iteration() - trainer.start_iteration()) * options_.batch * options_.context) *
        static_cast<double>(sync_.world().devices) / seconds;
    result.validation_loss = learner_.evaluate(kHeldOutWindows).at("loss");
    result.first_process = learner_.writes();
    if (!result.first_process) return result;
    learner_.model().eval();
    result.sample = sample();
    return result;
  }

  std::string what_was_kept() {
    const std::string log = options_.output + "/log.jsonl";
    const std::string at =
        fmt::format("interrupted after step {} of {}: ", learner_.main().iteration(), options_.steps);
    if (options_.checkpoint_every == 0)
      return at + log + " is kept, the model is not (--checkpoint-every): the same command begins anew";
    return at + fmt::format("{} and {} are kept; the same command with --resume goes on there",
                            checkpoints_.paths().back(), log);
  }

  DType autocast() const {
    for (const DType dtype : {DType::f32, DType::bf16})
      if (options_.autocast == to_string(dtype)) return dtype;
    raise<Error>("--autocast {}: there are f32 and bf16", options_.autocast);
  }

  /// Rows of the table of characters.
  std::int64_t table_size() const {
    if (options_.vocabulary != 0 && options_.vocabulary < vocabulary_.size())
      raise<Error>("--vocabulary {}: {} has {} characters", options_.vocabulary, options_.text, vocabulary_.size());
    return std::max(options_.vocabulary, vocabulary_.size());
  }

  void check() const {
    if (options_.steps < 1) raise<Error>("--steps {}: at least one step is needed", options_.steps);
    if (options_.batch < 1) raise<Error>("--batch {}: at least one sequence is needed", options_.batch);
    if (options_.context < 1) raise<Error>("--context {}: at least one character is needed", options_.context);
    if (!(options_.temperature > 0)) raise<Error>("--temperature {} is not positive", options_.temperature);
    if (!(options_.lowest_rate >= 0 && options_.lowest_rate <= 1))
      raise<Error>("--lowest-rate {} is not in [0, 1]", options_.lowest_rate);
    if (!(options_.initial_deviation >= 0 && std::isfinite(options_.initial_deviation)))
      raise<Error>("--initial-deviation {}: at least 0", options_.initial_deviation);
    if (options_.report_every < 1) raise<Error>("--report-every {}: at least 1", options_.report_every);
    if (options_.checkpoint_every < 0) raise<Error>("--checkpoint-every {} is negative", options_.checkpoint_every);
    autocast();
    table_size();
    vocabulary_.encode(options_.prompt);  // before the work, not after it
    if (held_out_ <= options_.context)
      raise<DataError>("{} has {} characters: a tenth of it must be longer than --context {}", options_.text,
                       tokens_.size(), options_.context);
  }

  Sequential initial_model() const {
    Generator random(options_.seed);
    const ModelOptions model{.vocabulary = table_size(),
                             .context = options_.context,
                             .features = options_.features,
                             .heads = options_.heads,
                             .layers = options_.layers,
                             .dropout = options_.dropout,
                             .tied = options_.tied,
                             .deviation = options_.initial_deviation};
    Sequential initial;
    if (options_.model == "gpt")
      initial.append("gpt", Gpt(model, random));
    else if (options_.model == "lstm")
      initial.append("lstm", Lstm(model, random));
    else
      raise<Error>("--model {}: there are gpt and lstm", options_.model);
    return initial;
  }

  // Windows from anywhere in all but the last tenth of the text. An epoch is as long on any number of devices.
  BatchStream training_batches() const {
    check();
    const auto windows = std::make_shared<const TokenWindows>(tokens_.slice(0, tokens_.size() - held_out_),
                                                              WindowOptions{.length = options_.context, .stride = 1});
    const auto sampler = with_replacement(windows->size(), kEpoch, options_.seed);
    return {windows, {.batch = options_.batch, .devices = devices_, .world = sync_.world(), .sampler = sampler}};
  }

  // One after the other from where the training text ends.
  BatchStream held_out_batches() const {
    const auto windows = std::make_shared<const TokenWindows>(tokens_.slice(tokens_.size() - held_out_, tokens_.size()),
                                                              WindowOptions{.length = options_.context});
    return {windows, {.batch = 1, .devices = {devices_.front()}, .shuffle = false}};
  }

  Learner::Parts parts() {
    return {.optimizer =
                [this](Sequential& replica) {
                  const auto [matrices, vectors] = split_by_rank(replica.parameters());
                  const double rate = options_.learning_rate;
                  return std::make_unique<AdamW>(
                      AdamW::ParameterGroups{{matrices, rate, {.beta2 = 0.99, .weight_decay = options_.weight_decay}},
                                             {vectors, rate, {.beta2 = 0.99, .weight_decay = 0}}});
                },
            .data = [this](std::size_t d) { return prefetch(batches_.stream(d)); },
            .losses = losses,
            .evaluation_data = [this](std::size_t) { return held_out_batches_.stream(); }};
  }

  void add_hooks() {
    const Schedule schedule =
        warm_cosine(options_.learning_rate, options_.lowest_rate * options_.learning_rate, options_.steps);
    for (std::size_t d = 0; d < devices_.size(); ++d)
      learner_.trainer(d).register_hook(std::make_shared<LearningRateSchedule>(learner_.optimizer(d), schedule));
    learner_.main().register_hooks(
        {interrupt_, std::make_shared<IterationTimer>(),
         std::make_shared<RunStatisticsHook>(
             RunStatisticsOptions{.every_steps = options_.report_every, .devices = devices_, .sync = &sync_}),
         bar_, std::make_shared<CallbackHook>(Callbacks{.after_step = [](Trainer&, const StepReport& report) {
           require_finite(report.metrics);
         }})});
    if (learner_.writes())
      learner_.main().register_hook(std::make_shared<PeriodicWriter>(writers(), options_.report_every));
    if (options_.checkpoint_every > 0) learner_.save_into(checkpoints_, parts_);
  }

  std::vector<std::unique_ptr<EventWriter>> writers() const {
    std::error_code error;
    std::filesystem::create_directories(options_.output, error);
    if (error) raise<DataError>("cannot make the folder {}: {}", options_.output, error.message());
    std::vector<std::unique_ptr<EventWriter>> writers;
    writers.push_back(
        std::make_unique<ConsoleWriter>(ConsoleWriterOptions{.iterations = options_.steps,
                                                             .output = stderr,
                                                             .bar = bar_.get(),
                                                             .hidden = {"data_time", "memory/", "sync/"}}));
    writers.push_back(std::make_unique<JsonLinesWriter>(
        options_.output + "/log.jsonl", options_.resume ? LineFile::Mode::append : LineFile::Mode::replace));
    return writers;
  }

  static void require_finite(const Metrics& metrics) {
    const auto loss = metrics.find("loss");
    if (loss != metrics.end() && !std::isfinite(loss->second))
      raise<Error>("the loss is {}: try a smaller --learning-rate", loss->second);
  }

  void require_no_checkpoints() const {
    if (options_.checkpoint_every > 0 && !checkpoints_.paths().empty())
      raise<Error>("{} has checkpoints of an earlier run: go on with --resume, or give another --output",
                   options_.output);
  }

  void resume() {
    const auto loaded = learner_.load_newest(checkpoints_, parts_);
    const bool tells = learner_.writes();
    if (!loaded && tells) fmt::print(stderr, "no checkpoint in {}: training begins\n", options_.output);
    if (!loaded) return;
    if (loaded->progress.step > options_.steps)
      raise<Error>("--steps {}: {} is of step {}", options_.steps, loaded->path, loaded->progress.step);
    if (tells) fmt::print(stderr, "resumed from {}\n", loaded->path);
  }

  std::string sample() {
    const NoGrad evaluation;
    Generator random = Generator(options_.seed).split(sync_.world().devices);
    std::string text = options_.prompt.empty() ? contents_.substr(0, 1) : options_.prompt;
    Progress progress(options_.sample, {.label = "sample",
                                        .output = stderr,
                                        .unit = "characters",
                                        .step = "character",
                                        .quiet = std::chrono::seconds(1)});
    for (std::int64_t i = 0; i < options_.sample; ++i) {
      const std::size_t seen = std::min(text.size(), static_cast<std::size_t>(options_.context));
      const auto window = vocabulary_.encode(text.substr(text.size() - seen));
      const Tensor tokens(Array::from(window, {1, static_cast<std::int64_t>(seen)}, devices_.front()));
      const Tensor all = learner_.model()(tokens)[{0, -1}];
      const Tensor logits = all.slice(0, 0, vocabulary_.size());  // of what has a character
      text += vocabulary_.decode({{categorical(logits / options_.temperature, random).item<std::int64_t>()}});
      progress.update({.step = i + 1, .examples = i + 1});
    }
    return text;
  }

  const Options options_;
  const std::vector<Device> devices_;
  const std::string contents_;
  const Vocabulary vocabulary_;
  const Tokens tokens_;
  const std::int64_t held_out_;        // tokens at the end
  std::unique_ptr<RunRecord> record_;  // the first process's
  ProcessGroup processes_ = ProcessGroup::from_environment();
  GradientSync sync_;
  const BatchStream batches_;
  const BatchStream held_out_batches_;
  const std::shared_ptr<StopOnInterrupt> interrupt_ = std::make_shared<StopOnInterrupt>(stderr);
  const std::shared_ptr<ProgressBar> bar_ = std::make_shared<ProgressBar>(
      ProgressBarOptions{.evaluation_steps = std::min(kHeldOutWindows, held_out_batches_.steps()),
                         .progress = {.output = stderr, .unit = "sequences"}});
  Learner learner_;
  CheckpointParts parts_;
  CheckpointFolder checkpoints_;
};

}  // namespace

Result train(const Options& options) { return Run(options).recorded_train(); }

}  // namespace text
