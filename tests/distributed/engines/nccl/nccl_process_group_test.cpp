// SPDX-License-Identifier: Apache-2.0
// A ProcessGroup's CUDA devices on the recording machine: each group is on a thread of the test.
#include <tutti/distributed/process_group.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/batch_norm_sync.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/processes/process_link.h>
#include <tutti/distributed/sharded/sharded_optimizer.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/normalization.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/engines/nccl/nccl_machine.h>
#include <tutti/tests/distributed/processes/control/job.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// Runs `work(processes)` for each rank, on a thread of its own; returns what each threw.
template <class Work> std::vector<std::string> run_group(int size, Work work) {
  const int port = free_port();
  return errors_of_devices(static_cast<std::size_t>(size), [&](std::size_t rank) {
    ProcessGroup processes(place_of(static_cast<int>(rank), size, port), {.rendezvous = std::chrono::seconds(30)});
    work(processes);
  });
}

/// `rank_1_fails`: the step in which rank 1 throws.
void train(ProcessGroup& processes, GradientSync& sync, Device device, int steps, int rank_1_fails = -1) {
  Generator random(1);
  auto replicas = sync.replicate(Linear(8, 4, random));
  Sgd optimizer(replicas[0].parameters(), 0.1);
  const Tensor input(Array::from(std::vector<float>(6 * 8, 0.5F), {6, 8}, device));
  const Tensor target(Array::from(std::vector<std::int64_t>(6, 1), {6}, device));
  const Tensor one(Array::from(std::vector<float>{1}, {1}, device));
  const bool early = processes.rank() == 1;
  for (int i = 0; i < steps; ++i) {
    if (i == rank_1_fails && processes.rank() == 1) throw Error("rank 1 has no more data");
    optimizer.zero_grad();
    PendingTensor ranks = sync.all_reduce(device, one);
    std::optional<Tensor> sum;
    if (early) sum = ranks.resolve();
    auto step = sync.step(device, 6);
    step.backward(cross_entropy(replicas[0].forward(input), target));
    if (!early) sum = ranks.resolve();
    step.join();
    optimizer.step();
    synchronize(device);
    CHECK(sum->to_vector<float>()[0] == static_cast<float>(processes.size()));
  }
}

}  // namespace

TEST_CASE("nccl process group: devices of two and three processes train in one order") {
  for (const int size : {2, 3}) {
    const NcclMachine machine(size);
    throw_first(run_group(size, [](ProcessGroup& processes) {
      const Device device = cuda(processes.local_rank());
      GradientSync sync(processes, {device}, {.bucket_bytes = 64});
      CHECK(std::string(processes.engine()) == "NCCL");
      train(processes, sync, device, 10);
      sync.leave(device);
      synchronize(device);
    }));
    CHECK(machine.nccl.count("ncclAllReduce") >= static_cast<std::size_t>(size) * 10 * 2);
    CHECK(machine.nccl.alive() == 0);
  }
}

namespace {

struct Normed : Module {
  explicit Normed(Generator random) : hidden(8, 8, random), norm(8), output(8, 4, random) {}
  Tensor forward(const Tensor& x) const { return output.forward(norm.forward(hidden.forward(x))); }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("norm", norm);
    v.module("output", output);
  }
  Linear hidden;
  BatchNorm norm;
  Linear output;
};

/// A way of training beside the plain one.
struct Way {
  const char* name;
  SyncOptions options = {};
  bool norms_of_all = false;
  int own_steps = 6;  // of rank 1, which then follows
};

void train_in(const Way& way, ProcessGroup& processes) {
  const Device device = cuda(processes.local_rank());
  SyncOptions options = way.options;
  options.fail_after = std::chrono::seconds(20);  // whoever is missed is named before the test's own limit
  GradientSync sync(processes, {device}, options);
  Normed model(Generator(1));
  if (way.norms_of_all) synchronize_batch_norms(model, sync);
  auto replicas = sync.replicate(model);
  const bool in_backward = way.options.overlap == Overlap::in_backward;
  std::optional<ShardedOptimizer> sharded;
  Sgd whole(replicas[0].parameters(), 0.1);
  if (way.options.sharding != Sharding::none)
    sharded.emplace(sync, device, [](std::vector<Tensor> pieces) { return std::make_unique<Sgd>(pieces, 0.1); });
  if (in_backward) sync.attach(device, whole);
  const auto update = [&] {
    if (sharded)
      sharded->step();
    else if (!in_backward)
      whole.step();
  };
  const Tensor input(Array::from(std::vector<float>(6 * 8, 0.5F), {6, 8}, device));
  const Tensor target(Array::from(std::vector<std::int64_t>(6, 1), {6}, device));
  for (int i = 0; i < (processes.rank() == 1 ? way.own_steps : 6); ++i) {
    if (!in_backward) whole.zero_grad();
    sync.step(device, 6, [&](Step& step) { step.backward(cross_entropy(replicas[0].forward(input), target)); });
    update();
  }
  if (sync.flush(device)) update();
  sync.leave(device, Follow::yes);
  int followed = 0;
  for (; sync.follow(device); ++followed) update();
  CHECK(followed == (processes.rank() == 1 ? 6 - way.own_steps : 0));
  synchronize(device);
}

}  // namespace

// The machine computes nothing: what is seen is that all launch the same, and end.
TEST_CASE("nccl process group: shares, buffers, norms, double buffering, updates in backward, followers") {
  SyncOptions buffered;
  buffered.overlap = Overlap::double_buffered;
  buffered.buffers = BufferPolicy::synchronised;
  const Way ways[] = {
      {"buffers of the first", {.buffers = BufferPolicy::main}},
      {"mean of the buffers", {.buffers = BufferPolicy::mean}},
      {"norms of all", {}, true},
      {"double buffered", buffered},
      {"in backward", {.overlap = Overlap::in_backward}},
      {"optimizer's state divided", {.sharding = Sharding::optimizer_state}},
      {"gradients divided", {.sharding = Sharding::gradients}},
      {"16 bits", {.wire = GradientWire::bf16}},
      {"a follower", {.buffers = BufferPolicy::mean}, false, 2},
      {"a follower with a share", {.sharding = Sharding::gradients}, false, 2},
      {"a follower updated in backward", {.overlap = Overlap::in_backward}, false, 2},
  };
  for (const Way& way : ways)
    for (const int size : {2, 3}) {
      CAPTURE(way.name);
      CAPTURE(size);
      const NcclMachine machine(size);
      for (const std::string& error : run_group(size, [&](ProcessGroup& processes) { train_in(way, processes); }))
        CHECK(error == "");
      CHECK(machine.nccl.alive() == 0);
    }
}

TEST_CASE("nccl process group: devices of two kinds are refused by their names, on all") {
  const NcclMachine machine(2);
  for (const std::string& error : run_group(2, [](ProcessGroup& processes) {
         GradientSync sync(processes, {processes.rank() == 0 ? cuda(0) : cpu(0)});
       }))
    CHECK(error == "[sync] rank 0 has cuda:0 and rank 1 has cpu:0: a group has devices of one kind");
}

TEST_CASE("nccl process group: a group without devices is refused") {
  for (const std::string& error :
       run_group(2, [](ProcessGroup& processes) { (void)processes.connect({}, std::chrono::seconds(1)); }))
    CHECK(error == "[sync] a group needs at least one device");
  for (const std::string& error :
       run_group(1, [](ProcessGroup& processes) { (void)processes.connect({}, std::chrono::seconds(1)); }))
    CHECK(error == "[sync] a process that is alone has no others to connect with");
}

TEST_CASE("nccl process group: the network engine is refused for CUDA devices") {
  const NcclMachine machine(1);
  const int port = free_port();
  for (const std::string& error : errors_of_devices(2, [&](std::size_t rank) {
         ProcessGroup processes(place_of(static_cast<int>(rank), 2, port), {.engine = ProcessEngine::network});
         GradientSync sync(processes, {cuda(0)});
       }))
    CHECK(error == "[sync] ProcessEngine::network connects CPU devices, not cuda:0");
}

TEST_CASE("nccl process group: a process that gives up is named by the other") {
  const NcclMachine machine(2);
  const auto errors = run_group(2, [](ProcessGroup& processes) {
    const Device device = cuda(processes.rank());
    GradientSync sync(processes, {device});
    train(processes, sync, device, 4, 2);
  });
  CAPTURE(errors[0]);
  CHECK(errors[0].find("rank 1 ") != std::string::npos);
  CHECK(errors[1] == "rank 1 has no more data");
  CHECK(machine.nccl.alive() == 0);
}
