// SPDX-License-Identifier: Apache-2.0
// Hooks of tensors that use the group within the synchronised backward that calls them.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/backend/error.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

// It made the device's arena anew, under gradients that had been registered with the old one: replicas came to differ.
TEST_CASE("hooks: a no_sync scope within the synchronised backward is refused, on all devices") {
  GradientSync sync(test_devices(2));
  auto replicas = sync.replicate(TwoBranches{});
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    TwoBranches& replica = replicas[d];
    auto step = sync.step(test_device(d));
    std::vector<Tensor> held;
    Tensor middle = replica.left * 1.0;
    middle.register_hook([&](const Tensor& gradient) {
      if (d == 0) {
        held.push_back(replica.right.grad());
        const auto scope = step.no_sync();
      }
      return gradient;
    });
    step.backward(sum(middle * 1.0) + use(replica.right, 2));
  });
  for (const std::string& error : errors)
    CHECK_MESSAGE(
        error.find(as_tested("[no_sync] opened in the synchronised backward of step 1 of cpu:0")) != std::string::npos,
        error);
}
