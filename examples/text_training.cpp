// SPDX-License-Identifier: Apache-2.0
#include <tutti/examples/text_training.h>

#include <tutti/autodiff/backward.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/examples/device_threads.h>
#include <tutti/examples/language_models.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/clip.h>
#include <tutti/optim/schedule.h>
#include <tutti/train/metrics.h>
#include <tutti/train/progress.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

namespace text {

using namespace tutti;

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) raise<DataError>("cannot read {}: {}", path, std::strerror(errno));
  std::string contents((std::istreambuf_iterator<char>(file)), {});
  if (file.bad()) raise<DataError>("cannot read {}: {}", path, std::strerror(errno));
  return contents;
}

/// The bytes that a text has, in ascending order; a token is a byte's place among them.
class Vocabulary {
 public:
  explicit Vocabulary(std::string text) : characters_(std::move(text)) {
    std::ranges::sort(characters_, {}, [](char c) { return static_cast<unsigned char>(c); });
    characters_.erase(std::ranges::unique(characters_).begin(), characters_.end());
  }

  std::int64_t size() const { return static_cast<std::int64_t>(characters_.size()); }
  char character(std::int64_t token) const { return characters_.at(static_cast<std::size_t>(token)); }
  std::vector<std::int64_t> tokens(const std::string& text) const {
    std::vector<std::int64_t> found;
    for (const char c : text) {
      const auto place = characters_.find(c);
      if (place == std::string::npos) raise<DataError>("the text has no character \"{}\"", c);
      found.push_back(static_cast<std::int64_t>(place));
    }
    return found;
  }

 private:
  std::string characters_;
};

struct Sequences {
  Tensor inputs;   ///< [n, t]
  Tensor targets;  ///< [n, t]: each input's next token
};

/// The sequences of `length` tokens that begin at these places.
Sequences sequences_at(const std::vector<std::int64_t>& begins, std::span<const std::int64_t> tokens,
                       std::int64_t length, Device device) {
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> targets;
  for (const std::int64_t begin : begins) {
    const auto first = tokens.begin() + begin;
    inputs.insert(inputs.end(), first, first + length);
    targets.insert(targets.end(), first + 1, first + length + 1);
  }
  const Shape shape{static_cast<std::int64_t>(begins.size()), length};
  return {Tensor(Array::from(inputs, shape, device)), Tensor(Array::from(targets, shape, device))};
}

Tensor loss_of(const Sequential& model, const Sequences& sequences) {
  return cross_entropy(model.forward(sequences.inputs), sequences.targets, {.class_axis = -1});
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
        devices_(examples::devices_of(options.device, options.devices, options.threads_per_device)),
        contents_(read_file(options.text)),
        vocabulary_(contents_),
        tokens_(vocabulary_.tokens(contents_)),
        held_out_(static_cast<std::int64_t>(tokens_.size()) / 10),
        sync_(checked(), {}),
        replicas_(sync_.replicate(initial_model())),
        schedule_(warm_cosine(options.learning_rate, options.steps)) {}

  Result train() {
    const auto start = std::chrono::steady_clock::now();
    examples::on_every_device(devices_.size(), [this](std::size_t d) { train_device(d); });
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
    vocabulary_.tokens(options_.prompt);  // before the work, not after it
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

  std::span<const std::int64_t> training_tokens() const {
    return std::span(tokens_).first(tokens_.size() - static_cast<std::size_t>(held_out_));
  }

  void train_device(std::size_t d) {
    const std::vector<Tensor> parameters = replicas_[d].parameters();
    AdamW optimizer(parameters, options_.learning_rate, {.beta2 = 0.99, .weight_decay = 0.1});
    Generator places = Generator(options_.seed).split(d);
    std::optional<Progress> progress;
    if (d == 0) progress.emplace(options_.steps, ProgressOptions{.label = options_.model});
    for (std::int64_t i = 0; i < options_.steps; ++i) {
      optimizer.set_learning_rate(schedule_(i));
      optimizer.zero_grad();
      auto step = sync_.step(devices_[d], static_cast<double>(options_.batch));
      const Tensor loss = loss_of(replicas_[d], random_sequences(places, devices_[d]));
      step.backward(loss);
      clip_grad_norm(parameters, 1.0);
      optimizer.step();
      if (d == 0) note(i, loss.item<double>(), *progress);
    }
    if (progress) progress->finish();
    sync_.leave(devices_[d]);
  }

  void note(std::int64_t step, double loss, Progress& progress) {
    if (!std::isfinite(loss)) raise<Error>("the loss is {}: try a smaller --learning-rate", loss);
    if (step >= options_.steps - std::max<std::int64_t>(1, options_.steps / 10)) last_.add(loss);
    progress.update({.step = step + 1, .examples = (step + 1) * options_.batch, .loss = loss});
  }

  Sequences random_sequences(Generator& places, Device device) const {
    const auto tokens = training_tokens();
    std::vector<std::int64_t> begins;
    for (std::int64_t i = 0; i < options_.batch; ++i)
      begins.push_back(
          static_cast<std::int64_t>(places.below(tokens.size() - static_cast<std::size_t>(options_.context))));
    return sequences_at(begins, tokens, options_.context, device);
  }

  // Of up to 64 sequences, one after the other from where the training text ends.
  double validation_loss() {
    const NoGrad evaluation;
    const auto tokens = std::span(tokens_).last(static_cast<std::size_t>(held_out_));
    RunningAverage average;
    for (std::int64_t i = 0; i < 64 && (i + 1) * options_.context < held_out_; ++i) {
      const auto one = sequences_at({i * options_.context}, tokens, options_.context, devices_.front());
      average.add(loss_of(replicas_.front(), one).item<double>());
    }
    return average.mean();
  }

  std::string sample() {
    const NoGrad evaluation;
    Generator random = Generator(options_.seed).split(devices_.size());
    std::string text = options_.prompt.empty() ? contents_.substr(0, 1) : options_.prompt;
    for (std::int64_t i = 0; i < options_.sample; ++i) {
      const std::size_t seen = std::min(text.size(), static_cast<std::size_t>(options_.context));
      const auto window = vocabulary_.tokens(text.substr(text.size() - seen));
      const Tensor tokens(Array::from(window, {1, static_cast<std::int64_t>(seen)}, devices_.front()));
      const Tensor logits = replicas_.front().forward(tokens)[{0, -1}];
      text += vocabulary_.character(categorical(logits / options_.temperature, random).item<std::int64_t>());
    }
    return text;
  }

  const Options options_;
  const std::vector<Device> devices_;
  const std::string contents_;
  const Vocabulary vocabulary_;
  const std::vector<std::int64_t> tokens_;
  const std::int64_t held_out_;  // tokens at the end
  GradientSync sync_;
  std::vector<Sequential> replicas_;
  const Schedule schedule_;
  RunningAverage last_;  // the first device's loss, of the last tenth of the steps
};

}  // namespace

Result train(const Options& options) { return Run(options).train(); }

}  // namespace text
