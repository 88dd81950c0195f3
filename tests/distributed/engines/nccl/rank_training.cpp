// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/compression/relative_distance.h>
#include <tutti/tests/distributed/engines/nccl/nccl_rank.h>
#include <tutti/tests/distributed/engines/nccl/rank_model.h>

#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/nccl/nccl_communicator.h>
#include <tutti/distributed/gradient_sync.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace tutti::testing {
namespace {

/// A process's part of the training: its device's gradients are summed over all processes, so each rank's loss is its
/// share of the mean over all examples.
class TrainingRank {
 public:
  TrainingRank(const Rank& rank, std::int64_t width)
      : rank_(rank), sync_({cuda(0)}, {.bucket_bytes = 1 << 16}, rank.connect()), model_(make_rank_model(width)) {
    sync_.attach(cuda(0), model_);
    optimizer_ = make_rank_optimizer(model_);
    sync_.attach(cuda(0), *optimizer_);
  }
  void step(int number) {
    const RankExamples own = RankExamples(number, rank_.world * kRankBatch).of(rank_.number);
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
  for (int i = 0; i < kRankSteps; ++i) training.step(i);
  result.difference = relative_distance(training.values(), train_alone(rank.world));
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
