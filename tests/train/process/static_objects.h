// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/tests/train/linear_training.h>

#include <memory>

namespace tutti::testing {

/// A learner that trains on so many CPU devices, for as long as it is told.
std::unique_ptr<LinearLearner> make_learner(std::size_t devices);

// Objects with static storage, of two sources: their order of construction, and of destruction, is the linker's.
Tensor& first_tensor();
Tensor& second_tensor();
void use_first_objects();  ///< a step in a static group; makes objects that are destroyed before the others
void use_second_objects();

}  // namespace tutti::testing
