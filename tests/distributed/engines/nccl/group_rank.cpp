// SPDX-License-Identifier: Apache-2.0
// group_rank RANK WORLD PORT: one process of a ProcessGroup, with cuda:0 as its only device, started by
// nccl_groups_test. The processes train together, beside what one device does with all examples; then the last rank is
// killed, and the others have to hear who it was.
#include <tutti/tests/distributed/compression/relative_distance.h>
#include <tutti/tests/distributed/engines/nccl/rank_model.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/process_group.h>

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <string>

namespace tutti::testing {
namespace {

/// Every other rank waits for the collective of a step behind the backward, so that requests come in different orders.
class Training {
 public:
  Training(ProcessGroup& processes, GradientSync& sync)
      : processes_(processes), sync_(sync), model_(make_rank_model(128)), optimizer_(make_rank_optimizer(model_)) {
    sync_.attach(cuda(0), model_);
    sync_.attach(cuda(0), *optimizer_);
  }
  void step(int number) {
    const RankExamples own = RankExamples(number, processes_.size() * kRankBatch).of(processes_.rank());
    optimizer_->zero_grad();
    PendingTensor ranks = sync_.all_reduce(cuda(0), Tensor(Array::from(std::vector<float>{1}, {1}, cuda(0))));
    const bool early = processes_.rank() % 2 == 0;
    if (early) check(ranks.resolve());
    auto step = sync_.step(cuda(0), static_cast<double>(kRankBatch));
    step.backward(cross_entropy(model_.forward(own.inputs), own.targets));
    if (!early) check(ranks.resolve());
    step.join();
    optimizer_->step();
  }
  std::vector<double> values() { return values_of(model_); }

 private:
  void check(const Tensor& ranks) const {
    if (ranks.to_vector<float>()[0] != static_cast<float>(processes_.size())) raise("a collective has another sum");
  }

  ProcessGroup& processes_;
  GradientSync& sync_;
  Sequential model_;
  std::unique_ptr<Sgd> optimizer_;
};

void check_error_of_dead(Training& training, int dead) {
  try {
    for (int i = kRankSteps; i < 100'000; ++i) training.step(i);
  } catch (const SyncError& error) {
    const std::string text = error.what();
    // Its connections end before the driver lets it go.
    const bool died = text.find("has died") != std::string::npos || text.find("is lost") != std::string::npos;
    if (!died || text.find(fmt::format("rank {} ", dead)) == std::string::npos)
      raise("a rank that was killed is told as \"{}\"", text);
    return;
  }
  raise("nobody missed a rank that was killed");
}

void run(int rank, int world, int port) {
  const LaunchPlace place{.launcher = "test",
                          .rank = rank,
                          .size = world,
                          .local_size = 0,
                          .address = "127.0.0.1",
                          .port = port,
                          .job = "processes on one GPU"};
  ProcessGroup processes(place, {});
  GradientSync sync(processes, {cuda(0)}, {.bucket_bytes = std::size_t{1} << 16U});
  if (std::string(processes.engine()) != "NCCL") raise("the engine is {}", processes.engine());
  Training training(processes, sync);
  for (int i = 0; i < kRankSteps; ++i) training.step(i);
  const double difference = relative_distance(training.values(), train_alone(world));
  if (!(difference <= 1e-6)) raise("the parameters differ from one device's by {:.3g}", difference);
  if (rank == world - 1) {
    for (int i = kRankSteps; i < kRankSteps + 3; ++i) training.step(i);
    std::raise(SIGKILL);
  }
  check_error_of_dead(training, world - 1);
}

}  // namespace
}  // namespace tutti::testing

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: group_rank RANK WORLD PORT\n");
    return 2;
  }
  try {
    tutti::testing::run(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {} of {}: {}\n", argv[1], argv[2], error.what());
    return 1;
  }
  return 0;
}
