// SPDX-License-Identifier: Apache-2.0
// Whole training steps on two devices without a GPU. Kernels do nothing, so values mean nothing; but every call, use of
// memory and handle is there, and the recorder finds what is not in order.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/backend/registry.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/engines/nccl/nccl_machine.h>
#include <tutti/tests/distributed/engines/nccl/recording_nccl.h>
#include <tutti/tests/distributed/engines/two_halves.h>

#include <doctest/doctest.h>

using namespace tutti;
using namespace tutti::testing;

namespace {

void train(const SyncOptions& options, int steps) {
  GradientSync sync({cuda(0), cuda(1)}, options);
  Generator random(1);
  auto replicas = sync.replicate(Sequential(Linear(8, 16, random), ReLU(), Linear(16, 4, random)));
  run_devices(2, [&](std::size_t d) {
    const Device device = cuda(static_cast<std::uint16_t>(d));
    Sgd optimizer(replicas[d].parameters(), 0.1, SgdOptions{.momentum = 0.9});
    sync.attach(device, optimizer);
    const Tensor input(Array::from(std::vector<float>(6 * 8, 0.5F), {6, 8}, device));
    const Tensor target(Array::from(std::vector<std::int64_t>(6, 1), {6}, device));
    for (int i = 0; i < steps; ++i) {
      optimizer.zero_grad();
      auto step = sync.step(device, 6);
      step.backward(cross_entropy(replicas[d].forward(input), target));
      step.join();
      optimizer.step();
    }
    sync.flush(device);
    sync.leave(device);
    synchronize(device);
  });
}

}  // namespace

TEST_CASE("nccl training: steps of two devices are in order, and leave nothing behind") {
  for (const bool deferred : {false, true}) {
    RecordingCuda machine({.devices = 2, .deferred = deferred});
    RecordingNccl nccl;
    const RenewedBackend backend;
    SUBCASE("immediate") { train({}, 4); }
    SUBCASE("double-buffered") { train({.overlap = Overlap::double_buffered}, 4); }
    SUBCASE("one reduction for each parameter") { train({.bucket_bytes = 0}, 4); }
    CHECK(nccl.count("ncclAllReduce") >= 8);
  }
}

TEST_CASE("nccl training: this engine inside another one sums the same, each stage behind the one before") {
  for (const bool deferred : {false, true}) {
    const NcclMachine machine(3, deferred);
    TwoHalves engine(machine.devices, machine.connect());
    std::vector<AllReduceSlice> slices = slices_on(machine.devices);
    for (const int round : {0, 1}) {
      std::vector<std::shared_ptr<CollectiveTask>> tasks{engine.all_reduce(sum_of(slices, 2.0))};
      tasks.push_back(engine.all_reduce({.slices = slices, .ready = events_of(tasks[0]), .denominator = 0.5}));
      for (const Device device : machine.devices) join_tasks(device, tasks);
      const float factor = round == 0 ? 9.0F : 81.0F;  // three devices, divided by 2 and by 0.5, twice
      for (const AllReduceSlice& slice : slices)
        CHECK(slice.gradient.to_vector<float>() == std::vector<float>{factor, 2 * factor, 3 * factor});
    }
  }
}
