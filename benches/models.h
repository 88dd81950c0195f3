// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/activation.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/sgd.h>

#include <memory>
#include <utility>
#include <vector>

namespace tutti::bench {

/// One training problem of the benches: what is trained, how, and on how much data a step.
struct Workload {
  const char* name;
  std::int64_t batch;  ///< examples per device and step
  Shape example;       ///< shape of one input
  Sequential (*make_model)(Generator&);
  std::unique_ptr<Optimizer> (*make_optimizer)(std::vector<Tensor> parameters);

  /// A batch of noise with random classes, 0 to 9.
  std::pair<Tensor, Tensor> make_batch(Generator& random, Device device) const {
    Shape shape = example;
    shape.insert(0, batch);
    std::vector<std::int64_t> classes;
    for (std::int64_t i = 0; i < batch; ++i) classes.push_back(static_cast<std::int64_t>(random.below(10)));
    return {Tensor(random.normal(shape, DType::f32, device)), Tensor(Array::from(classes, {batch}, device))};
  }
};

inline std::unique_ptr<Optimizer> momentum_sgd(std::vector<Tensor> parameters) {
  return std::make_unique<Sgd>(std::move(parameters), 0.01, SgdOptions{.momentum = 0.9});
}

inline std::unique_ptr<Optimizer> adamw(std::vector<Tensor> parameters) {
  return std::make_unique<AdamW>(std::move(parameters), 1e-3);
}

/// MLP 784-512-512-10, batch 64, SGD with momentum: 669,706 values.
inline const Workload kSmallMlp{"mlp_784_512_512_10",
                                64,
                                {784},
                                [](Generator& random) {
                                  return Sequential(Linear(784, 512, random), ReLU(), Linear(512, 512, random), ReLU(),
                                                    Linear(512, 10, random));
                                },
                                &momentum_sgd};

/// MLP with four hidden layers of 1024, batch 256, AdamW: 3,962,890 values.
inline const Workload kLargeMlp{"mlp_784_4x1024_10",
                                256,
                                {784},
                                [](Generator& random) {
                                  return Sequential(Linear(784, 1024, random), ReLU(), Linear(1024, 1024, random),
                                                    ReLU(), Linear(1024, 1024, random), ReLU(),
                                                    Linear(1024, 1024, random), ReLU(), Linear(1024, 10, random));
                                },
                                &adamw};

/// The network of examples/digits, batch 64, AdamW: 38,282 values.
inline const Workload kDigitsCnn{
    "digits_cnn",
    64,
    {1, 8, 8},
    [](Generator& random) {
      return Sequential(Conv2d(1, 16, 3, random, {.padding = 1}), ReLU(), Conv2d(16, 32, 3, random, {.padding = 1}),
                        ReLU(), MaxPool2d(2), Flatten(), Linear(512, 64, random), ReLU(), Linear(64, 10, random));
    },
    &adamw};

}  // namespace tutti::bench
