// SPDX-License-Identifier: Apache-2.0
#include <tutti/examples/text_training.h>

#include <tutti/autodiff/backward.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/examples/language_models.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/clip.h>
#include <tutti/optim/schedule.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/data/gzip_file.h>
#include <tutti/train/data/prefetch.h>
#include <tutti/train/data/tokens.h>
#include <tutti/train/data/vocabulary.h>
#include <tutti/train/device_threads.h>
#include <tutti/train/reporting/metrics.h>
#include <tutti/train/reporting/progress.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

namespace text {

using namespace tutti;

namespace {

Tensor loss_of(const Sequential& model, const Batch& batch) {
  return cross_entropy(model.forward(batch.inputs), batch.targets, {.class_axis = -1});
}

/// Up in a twentieth of the steps, the first of which is not lost at a rate of 0, and down in the others.
Schedule warm_cosine(double rate, std::int64_t steps) {
  const std::int64_t rising = std::max<std::int64_t>(1, steps / 20);
  return Schedule::warm_up(rising, Schedule::cosine(rate, std::max<std::int64_t>(1, steps - rising)),
                           1.0 / static_cast<double>(rising));
}

class Run {
 public:
  explicit Run(const Options& options)
      : options_(options),
        devices_(devices_of(options.device, options.devices, options.threads_per_device)),
        contents_(read_text(options.text)),
        vocabulary_(contents_),
        tokens_(vocabulary_.encode(contents_)),
        held_out_(tokens_.size() / 10),
        sync_(checked(), {}),
        batches_(training_batches()),
        replicas_(sync_.replicate(initial_model())),
        schedule_(warm_cosine(options.learning_rate, options.steps)) {}

  Result train() {
    const auto start = std::chrono::steady_clock::now();
    on_every_device(devices_.size(), [this](std::size_t d) { train_device(d); });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    Result result;
    for (const Tensor& parameter : replicas_.front().parameters()) result.parameters += parameter.size();
    result.training_loss = last_.mean();
    result.characters_per_second = static_cast<double>(options_.steps * options_.batch * options_.context) *
                                   static_cast<double>(devices_.size()) / seconds;
    replicas_.front().eval();
    result.validation_loss = validation_loss();
    result.sample = sample();
    return result;
  }

 private:
  const std::vector<Device>& checked() const {
    if (options_.steps < 1) raise<Error>("--steps {}: at least one step is needed", options_.steps);
    if (options_.batch < 1) raise<Error>("--batch {}: at least one sequence is needed", options_.batch);
    if (options_.context < 1) raise<Error>("--context {}: at least one character is needed", options_.context);
    if (!(options_.temperature > 0)) raise<Error>("--temperature {} is not positive", options_.temperature);
    vocabulary_.encode(options_.prompt);  // before the work, not after it
    if (held_out_ <= options_.context)
      raise<DataError>("{} has {} characters: a tenth of it must be longer than --context {}", options_.text,
                       tokens_.size(), options_.context);
    return devices_;
  }

  Sequential initial_model() const {
    Generator random(options_.seed);
    const ModelOptions model{.vocabulary = vocabulary_.size(),
                             .context = options_.context,
                             .features = options_.features,
                             .heads = options_.heads,
                             .layers = options_.layers,
                             .dropout = options_.dropout};
    Sequential initial;
    if (options_.model == "gpt")
      initial.append("gpt", Gpt(model, random));
    else if (options_.model == "lstm")
      initial.append("lstm", Lstm(model, random));
    else
      raise<Error>("--model {}: there are gpt and lstm", options_.model);
    return initial;
  }

  // One epoch: windows from anywhere in all but the last tenth of the text.
  BatchStream training_batches() const {
    const auto windows = std::make_shared<const TokenWindows>(tokens_.slice(0, tokens_.size() - held_out_),
                                                              WindowOptions{.length = options_.context, .stride = 1});
    const std::int64_t draws = options_.steps * options_.batch * std::ssize(devices_);
    const auto sampler = with_replacement(windows->size(), draws, options_.seed);
    return {windows, {.batch = options_.batch, .devices = devices_, .sampler = sampler}};
  }

  void train_device(std::size_t d) {
    const std::vector<Tensor> parameters = replicas_[d].parameters();
    AdamW optimizer(parameters, options_.learning_rate, {.beta2 = 0.99, .weight_decay = 0.1});
    const auto batches = prefetch(batches_.stream(d));
    std::optional<Progress> progress;
    if (d == 0) progress.emplace(options_.steps, ProgressOptions{.label = options_.model});
    while (const auto batch = batches->next()) {
      optimizer.set_learning_rate(schedule_(batch->step));
      optimizer.zero_grad();
      auto step = sync_.step(devices_[d], batch->weight());
      const Tensor loss = loss_of(replicas_[d], *batch);
      step.backward(loss);
      clip_grad_norm(parameters, 1.0);
      optimizer.step();
      if (d == 0) note(batch->step, loss.item<double>(), *progress);
    }
    if (progress) progress->finish();
    sync_.leave(devices_[d]);
  }

  void note(std::int64_t step, double loss, Progress& progress) {
    if (!std::isfinite(loss)) raise<Error>("the loss is {}: try a smaller --learning-rate", loss);
    if (step >= options_.steps - std::max<std::int64_t>(1, options_.steps / 10)) last_.add(loss);
    progress.update({.step = step + 1, .examples = (step + 1) * options_.batch, .loss = loss});
  }

  // Of up to 64 sequences, one after the other from where the training text ends.
  double validation_loss() {
    const NoGrad evaluation;
    const TokenWindows windows(tokens_.slice(tokens_.size() - held_out_, tokens_.size()), {.length = options_.context});
    RunningAverage average;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(64, windows.size()); ++i)
      average.add(loss_of(replicas_.front(), windows.batch({&i, 1}, devices_.front())).item<double>());
    return average.mean();
  }

  std::string sample() {
    const NoGrad evaluation;
    Generator random = Generator(options_.seed).split(devices_.size());
    std::string text = options_.prompt.empty() ? contents_.substr(0, 1) : options_.prompt;
    for (std::int64_t i = 0; i < options_.sample; ++i) {
      const std::size_t seen = std::min(text.size(), static_cast<std::size_t>(options_.context));
      const auto window = vocabulary_.encode(text.substr(text.size() - seen));
      const Tensor tokens(Array::from(window, {1, static_cast<std::int64_t>(seen)}, devices_.front()));
      const Tensor logits = replicas_.front().forward(tokens)[{0, -1}];
      text += vocabulary_.decode({{categorical(logits / options_.temperature, random).item<std::int64_t>()}});
    }
    return text;
  }

  const Options options_;
  const std::vector<Device> devices_;
  const std::string contents_;
  const Vocabulary vocabulary_;
  const Tokens tokens_;
  const std::int64_t held_out_;  // tokens at the end
  GradientSync sync_;
  const BatchStream batches_;
  std::vector<Sequential> replicas_;
  const Schedule schedule_;
  RunningAverage last_;  // the first device's loss, of the last tenth of the steps
};

}  // namespace

Result train(const Options& options) { return Run(options).train(); }

}  // namespace text
