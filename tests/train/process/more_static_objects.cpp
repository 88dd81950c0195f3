// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/train/process/static_objects.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>

#include <unistd.h>

#include <cstdlib>

namespace tutti::testing {

namespace {

/// Computes, and makes a group, at the very end of the program.
struct Last {
  ~Last() {
    try {
      const Tensor own = ones({4, 3}, {.device = cpu(1)}) + 1.0;
      if (sum(own * own).item<float>() != 48.0F) std::abort();
      const GradientSync late({cpu(0), cpu(1)});
    } catch (const DeviceError&) {  // asynchronous streams in a child process
      if (getpid() == parent) std::abort();
    }
  }
  pid_t parent = getpid();
};
// Made before the library is used: destroyed behind all that is made with it.
Last last;

Tensor tensor = ones({4, 3}, {.device = cpu(1)}) * 3.0;
std::unique_ptr<LinearLearner> learner = make_learner(1);
GradientSync group({cpu(0), cpu(1), cpu(2)});

}  // namespace

Tensor& second_tensor() { return tensor; }

void use_second_objects() {
  static const Last own;
  learner->train({.steps = 3});
}

}  // namespace tutti::testing
