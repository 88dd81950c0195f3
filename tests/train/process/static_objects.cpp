// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/train/process/static_objects.h>

#include <tutti/distributed/gradient_sync.h>
#include <tutti/optim/sgd.h>

namespace tutti::testing {

namespace {

// Made before main, and before whatever the library makes when it is first used is sure to be there.
Tensor tensor = ones({4, 3}) + 1.0;
GradientSync group({cpu(0), cpu(1)});
std::unique_ptr<LinearLearner> learner = make_learner(2);

Linear network() {
  Generator random(7);
  return Linear(3, 2, random);
}

}  // namespace

std::unique_ptr<LinearLearner> make_learner(std::size_t devices) {
  std::vector<Device> all;
  for (std::size_t d = 0; d < devices; ++d) all.push_back(cpu(static_cast<std::uint16_t>(d)));
  return std::make_unique<LinearLearner>(
      network(),
      LinearLearner::Parts{
          .optimizer = [](Linear& replica) { return std::make_unique<Sgd>(replica.parameters(), 0.1); },
          .data =
              [](std::size_t d) {
                return std::make_unique<ListStream>(
                    std::vector{random_batch(4, d, cpu(static_cast<std::uint16_t>(d)))});
              },
          .losses = linear_losses},
      LearnerOptions{.devices = all});
}

Tensor& first_tensor() { return tensor; }

void use_first_objects() {
  static Tensor later = sum(tensor * 2.0);
  static const auto replicas = group.replicate(network());
  learner->train({.steps = 3});
  second_tensor() = later;  // storage that outlives the object that it was made for
}

}  // namespace tutti::testing
