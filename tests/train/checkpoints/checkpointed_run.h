// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/losses/regression_loss.h>
#include <tutti/optim/adamw.h>
#include <tutti/tests/test_devices.h>
#include <tutti/train/checkpoints/checkpoint_folder.h>

#include <charconv>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tutti::testing {

/// Batches in an order that each epoch shuffles anew.
class ShuffledNumbers : public DataStream<Tensor> {
 public:
  static constexpr std::int64_t kBatches = 7;

  std::optional<Tensor> next() override {
    if (at_ == kBatches) return {};
    const auto batch = static_cast<std::uint64_t>(
        Generator(static_cast<std::uint64_t>(epoch_)).permutation(kBatches)[static_cast<std::size_t>(at_++)]);
    return Tensor(Generator(5, batch).normal({8, 6}, DType::f32, test_device()));
  }
  void start_epoch(std::int64_t epoch) override {
    epoch_ = epoch;
    at_ = 0;
  }
  std::string position() const override { return std::to_string(epoch_) + ":" + std::to_string(at_); }
  void seek(const std::string& position) override {
    std::int64_t epoch = 0;
    std::int64_t at = 0;
    const char* const end = position.data() + position.size();
    const auto first = std::from_chars(position.data(), end, epoch);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':') raise<DataError>("no position: {}", position);
    const auto second = std::from_chars(first.ptr + 1, end, at);
    if (second.ec != std::errc() || second.ptr != end || at > kBatches) raise<DataError>("no position: {}", position);
    epoch_ = epoch;
    at_ = at;
  }

 private:
  std::int64_t epoch_ = 0;
  std::int64_t at_ = 0;
};

struct DroppingNetwork : Module {
  Linear hidden, output;
  Dropout dropout;
  Tensor batches{Array::zeros({}, DType::i64, test_device())};

  explicit DroppingNetwork(Generator random, std::int64_t width = 12)
      : hidden(6, width, random, {.device = test_device()}),
        output(width, 6, random, {.device = test_device()}),
        dropout(0.25, random) {}
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("output", output);
    v.module("dropout", dropout);
    v.buffer("batches", batches);
  }
  Tensor forward(const Tensor& x) { return output.forward(dropout.forward(tanh(hidden.forward(x)))); }
};

/// A training run with everything in it that a checkpoint has to keep.
struct CheckpointedRun {
  Generator random{1};
  DroppingNetwork model;
  AdamW optimizer{model.parameters(), 0.01};
  WeightAverage average{model.parameters(), {.decay = 0.9}};
  GradientScaler scaler{{.initial_scale = 4, .growth_interval = 3}};
  ReduceOnPlateau plateau{0.01, {.factor = 0.5, .patience = 0, .threshold = 1}};
  ShuffledNumbers stream;
  double epoch_loss = 0;
  CheckpointProgress progress;
  CheckpointParts parts;

  explicit CheckpointedRun(std::uint64_t seed = 1, std::int64_t width = 12) : model(Generator(seed), width) {
    parts.add("model", model);
    parts.add("optimizer", optimizer);
    parts.add("average", average);
    parts.add("scaler", scaler);
    parts.add("plateau", plateau);
    parts.add("random", random);
    parts.add("stream", stream);
    parts.add(
        "loop", [this] { return fmt::format("{}", epoch_loss); },
        [this](const std::string& text) {
          const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), epoch_loss);
          if (error != std::errc()) raise<DataError>("\"{}\" is no number", text);
        });
  }
  CheckpointedRun(const CheckpointedRun&) = delete;
  CheckpointedRun& operator=(const CheckpointedRun&) = delete;

  /// Goes on until so many steps have been made; `after` sees each moment.
  void run(std::int64_t steps, const std::function<void(CheckpointMoment)>& after = {}) {
    while (progress.step < steps) {
      if (const auto batch = stream.next()) {
        step(*batch);
        ++progress.step;
        if (after) after(CheckpointMoment::step);
        continue;
      }
      optimizer.set_learning_rate(plateau.update(epoch_loss));
      epoch_loss = 0;
      stream.start_epoch(++progress.epoch);
      if (after) after(CheckpointMoment::epoch);
    }
  }

  void resume(const LoadedCheckpoint& loaded) { progress = loaded.progress; }

  /// Everything that training has made, to be compared bit by bit.
  std::string result() const {
    std::string text;
    for (const auto& [name, state] : parts.save()) {
      text += name + "\n" + state.text + "\n";
      for (const auto& [array_name, array] : state.arrays) {
        text += array_name + ":";
        for (const double value : array.cast(DType::f64).to_vector<double>()) text += fmt::format(" {}", value);
        text += "\n";
      }
    }
    return text;
  }

 private:
  void step(const Tensor& batch) {
    model.zero_grad();
    const Tensor noise(random.normal(batch.shape(), DType::f32, batch.device(), 0.0, 0.1));
    const Tensor loss = mean(square(model.forward(batch + noise) - batch));
    backward(scaler.scale(loss));
    if (scaler.step(optimizer)) average.update();
    model.batches.set_array(Array::full({}, progress.step + 1, DType::i64, batch.device()));
    epoch_loss += loss.item<double>();
  }
};

}  // namespace tutti::testing
