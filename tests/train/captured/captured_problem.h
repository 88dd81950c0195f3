// SPDX-License-Identifier: Apache-2.0
#pragma once

// Trainings that are run eagerly and captured, to the same bits.

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>
#include <tutti/train/captured_step.h>

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace tutti::testing {

using TensorBatch = std::vector<Tensor>;

inline std::vector<float> values_of(Module& model) {
  std::vector<float> all;
  for (const auto& [name, tensor] : model.named_members()) {
    const auto values = tensor.array().cast(DType::f32).to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

inline Tensor normal(Generator& random, const Shape& shape) {
  return Tensor(random.normal(shape, DType::f32, test_device()));
}

inline Tensor classes(Generator& random, const Shape& shape, std::uint64_t below) {
  std::vector<std::int64_t> drawn;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    drawn.push_back(static_cast<std::int64_t>(random.below(below)));
  return Tensor(Array::from(drawn, shape, test_device()));
}

/// A model, its loss and its batches of so many examples.
struct Problem {
  std::function<std::unique_ptr<Module>(Generator&)> make;
  std::function<Tensor(Module&, std::span<const Tensor>)> loss;
  std::function<TensorBatch(Generator&, std::int64_t)> batch;
};

struct Trained {
  std::vector<float> parameters;
  std::vector<float> losses;
  CapturedStep::Report report;
};

/// 50 steps of momentum SGD, some of them with a smaller batch, `micro` backwards each.
inline Trained train(const Problem& problem, bool captured, int micro = 1) {
  Generator random(7);
  const auto model = problem.make(random);
  model->detach_members_to(test_device());
  Sgd optimizer(model->parameters(), 0.05, {.momentum = 0.9});
  Generator data(11);
  CapturedStep step(*model, [&](std::span<const Tensor> batch) { return std::vector{problem.loss(*model, batch)}; });
  Trained result;
  for (int i = 0; i < 50; ++i) {
    for (int m = 0; m < micro; ++m) {
      const TensorBatch batch = problem.batch(data, i % 7 == 6 ? 3 : 8);
      Tensor loss;
      if (captured) {
        loss = step(batch).front();
      } else {
        loss = problem.loss(*model, batch);
        backward(loss);
      }
      result.losses.push_back(loss.item<float>());
    }
    optimizer.set_learning_rate(0.05 / (1 + i));
    optimizer.step();
    optimizer.zero_grad();
  }
  result.parameters = values_of(*model);
  result.report = step.report();
  return result;
}

inline void check_same(const Problem& problem, int micro = 1) {
  const auto eager = train(problem, false, micro);
  const auto captured = train(problem, true, micro);
  CHECK(eager.losses == captured.losses);
  CHECK(eager.parameters == captured.parameters);
  CHECK(captured.report.eager == 2);  // a batch of each size
  CHECK(captured.report.replayed + captured.report.captured == 50 * micro - 2);
  CHECK(captured.report.replayed > 30);
  CHECK(captured.report.memory > 0);
}

}  // namespace tutti::testing
