// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/sgd.h>

#include <cstdint>
#include <memory>
#include <vector>

// A training on cuda:0, of which each of several processes has a share of the examples.

namespace tutti::testing {

constexpr std::int64_t kRankBatch = 16;  // of one rank
constexpr int kRankSteps = 10;

inline Sequential make_rank_model(std::int64_t width) {
  Generator random(7);
  Sequential model(Linear(64, width, random), Tanh(), Linear(width, width, random), Tanh(), Linear(width, 10, random));
  model.detach_members_to(cuda(0));
  return model;
}

/// All ranks' examples of one step.
struct RankExamples {
  Tensor inputs;
  Tensor targets;

  RankExamples(int step, std::int64_t count) {
    Generator random(100 + static_cast<std::uint64_t>(step));
    std::vector<std::int64_t> classes;
    for (std::int64_t i = 0; i < count; ++i) classes.push_back(static_cast<std::int64_t>(random.below(10)));
    inputs = Tensor(random.normal({count, 64}, DType::f32, cuda(0)));
    targets = Tensor(Array::from(classes, {count}, cuda(0)));
  }
  RankExamples of(int rank) const {
    RankExamples part = *this;
    part.inputs = slice(inputs, 0, rank * kRankBatch, (rank + 1) * kRankBatch);
    part.targets = slice(targets, 0, rank * kRankBatch, (rank + 1) * kRankBatch);
    return part;
  }
};

inline std::vector<double> values_of(Module& model) {
  std::vector<double> values;
  for (const Tensor& parameter : model.parameters())
    for (const double value : parameter.array().cast(DType::f64).to_vector<double>()) values.push_back(value);
  return values;
}

inline std::unique_ptr<Sgd> make_rank_optimizer(Module& model) {
  return std::make_unique<Sgd>(model.parameters(), 0.1, SgdOptions{.momentum = 0.9});
}

/// What one device alone makes of all ranks' examples.
inline std::vector<double> train_alone(int world) {
  Sequential model = make_rank_model(128);
  const auto optimizer = make_rank_optimizer(model);
  for (int i = 0; i < kRankSteps; ++i) {
    const RankExamples all(i, world * kRankBatch);
    optimizer->zero_grad();
    backward(cross_entropy(model.forward(all.inputs), all.targets));
    optimizer->step();
  }
  return values_of(model);
}

}  // namespace tutti::testing
