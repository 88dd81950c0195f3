// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/list_stream.h>
#include <tutti/train/learner.h>

namespace tutti {

using LinearLearner = DataParallelLearner<Linear, Batch>;

/// What learners are tested with: [n, 3] to [n, 2], for random_batch. Always the same.
inline Linear linear_network() {
  Generator random(7);
  Linear model(3, 2, random);
  model.detach_members_to(test_device());
  return model;
}

inline Losses linear_losses(Linear& model, const Batch& b) {
  return {{"loss", mse_loss(model.forward(b.inputs), b.targets)}};
}

}  // namespace tutti
