// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/compression/relative_distance.h>
#include <tutti/tests/distributed/engines/nccl/nccl_rank.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/nccl/nccl_communicator.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/sgd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace tutti::testing {
namespace {

constexpr std::int64_t kBatch = 16;  // of one rank
constexpr int kSteps = 10;

Sequential make_model(std::int64_t width) {
  Generator random(7);
  Sequential model(Linear(64, width, random), Tanh(), Linear(width, width, random), Tanh(), Linear(width, 10, random));
  model.detach_members_to(cuda(0));
  return model;
}

/// All ranks' examples of one step.
struct Examples {
  Tensor inputs;
  Tensor targets;

  Examples(int step, std::int64_t count) {
    Generator random(100 + static_cast<std::uint64_t>(step));
    std::vector<std::int64_t> classes;
    for (std::int64_t i = 0; i < count; ++i) classes.push_back(static_cast<std::int64_t>(random.below(10)));
    inputs = Tensor(random.normal({count, 64}, DType::f32, cuda(0)));
    targets = Tensor(Array::from(classes, {count}, cuda(0)));
  }
  Examples of(const Rank& rank) const {
    Examples part = *this;
    part.inputs = slice(inputs, 0, rank.number * kBatch, (rank.number + 1) * kBatch);
    part.targets = slice(targets, 0, rank.number * kBatch, (rank.number + 1) * kBatch);
    return part;
  }
};

std::vector<double> values_of(Module& model) {
  std::vector<double> values;
  for (const Tensor& parameter : model.parameters())
    for (const double value : parameter.array().cast(DType::f64).to_vector<double>()) values.push_back(value);
  return values;
}

std::unique_ptr<Sgd> make_optimizer(Module& model) {
  return std::make_unique<Sgd>(model.parameters(), 0.1, SgdOptions{.momentum = 0.9});
}

std::vector<double> train_alone(const Rank& rank) {
  Sequential model = make_model(128);
  const auto optimizer = make_optimizer(model);
  for (int i = 0; i < kSteps; ++i) {
    const Examples all(i, rank.world * kBatch);
    optimizer->zero_grad();
    backward(cross_entropy(model.forward(all.inputs), all.targets));
    optimizer->step();
  }
  return values_of(model);
}

/// A process's part of the training: its device's gradients are summed over all processes, so each rank's loss is its
/// share of the mean over all examples.
class TrainingRank {
 public:
  TrainingRank(const Rank& rank, std::int64_t width)
      : rank_(rank), sync_({cuda(0)}, {.bucket_bytes = 1 << 16}, rank.connect()), model_(make_model(width)) {
    sync_.attach(cuda(0), model_);
    optimizer_ = make_optimizer(model_);
    sync_.attach(cuda(0), *optimizer_);
  }
  void step(int number) {
    const Examples own = Examples(number, rank_.world * kBatch).of(rank_);
    optimizer_->zero_grad();
    auto step = sync_.step(cuda(0));
    step.backward(cross_entropy(model_.forward(own.inputs), own.targets) * (1.0 / rank_.world));
    step.join();
    optimizer_->step();
  }
  double seconds_of_step(bool reducing) {
    sync_.set_reductions_enabled(reducing);
    std::vector<double> seconds;
    for (int i = 0; i < 15; ++i) {
      synchronize(cuda(0));
      const auto start = std::chrono::steady_clock::now();
      step(i);
      synchronize(cuda(0));
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::ranges::nth_element(seconds, seconds.begin() + 7);
    return seconds[7];
  }
  std::vector<double> values() { return values_of(model_); }

 private:
  const Rank& rank_;
  GradientSync sync_;
  Sequential model_;
  std::unique_ptr<Sgd> optimizer_;
};

}  // namespace

RankTraining train_ranks(const Rank& rank) {
  RankTraining result;
  TrainingRank training(rank, 128);
  for (int i = 0; i < kSteps; ++i) training.step(i);
  result.difference = relative_distance(training.values(), train_alone(rank));
  return result;
}

void measure_steps(const Rank& rank, RankTraining& result) {
  TrainingRank training(rank, 1024);
  for (int i = 0; i < 3; ++i) training.step(i);
  const double alone = training.seconds_of_step(false);
  result.step_seconds = training.seconds_of_step(true);
  result.exposed_seconds = result.step_seconds - alone;
}

}  // namespace tutti::testing
