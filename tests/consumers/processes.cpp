// SPDX-License-Identifier: Apache-2.0
// A program of somebody else that runs in several processes: each brings its rank and 1, and gets the sum.
#include <tutti/tutti.h>

#include <cstdio>
#include <exception>

using namespace tutti;

int main() try {
  ProcessGroup processes = ProcessGroup::from_environment();
  const Device device = cpu(0);
  GradientSync sync(processes, {device});
  const Tensor own = full({1}, processes.rank() + 1.0);
  const Tensor sum = sync.all_reduce(device, own, CollectiveOperation::sum, "the ranks").resolve();
  std::printf("rank %d of %d over %s: sum %g\n", processes.rank(), processes.size(), processes.engine(),
              static_cast<double>(sum.item<float>()));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
