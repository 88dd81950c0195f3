// SPDX-License-Identifier: Apache-2.0
// Checkpoints of groups of devices, from N onto M of them.
#include <tutti/train/checkpoints/checkpoint_folder.h>

#include <tutti/backend/error.h>
#include <tutti/optim/adam.h>
#include <tutti/tests/distributed/compression/compressing_group.h>
#include <tutti/tests/distributed/processes/process_threads.h>
#include <tutti/tests/distributed/sharded/sharded_training.h>
#include <tutti/tests/exchange/temporary_folder.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr Sharding kSharded = Sharding::optimizer_state;

template <class T> std::vector<T*> pointers(const std::vector<std::unique_ptr<T>>& owners) {
  std::vector<T*> result;
  for (const auto& owner : owners) result.push_back(owner.get());
  return result;
}

CheckpointParts parts_of(BranchingTraining& training) {
  CheckpointParts parts;
  std::vector<Branching*> models;
  for (Branching& replica : training.replicas) models.push_back(&replica);
  parts.add("model", models);
  if (training.sharded.empty())
    parts.add("optimizer", pointers(training.plain));
  else
    parts.add("optimizer", pointers(training.sharded));
  return parts;
}

Branching blank() {
  Branching model;
  for (Tensor& parameter : model.parameters())
    parameter.set_array(Array::zeros(parameter.shape(), DType::f32, parameter.device()));
  return model;
}

}  // namespace

TEST_CASE("sharded checkpoint: resumed on as many devices, training ends bitwise the same") {
  const TemporaryFolder folder;
  BranchingTraining whole(3, kSharded, adamw());
  whole.run(0, 6);
  CheckpointFolder checkpoints(folder.file("run"));
  checkpoints.save(parts_of(whole), {6, 0, 0});
  whole.run(6, 12);

  BranchingTraining resumed(3, kSharded, adamw(), {}, blank());
  CHECK(checkpoints.load_newest(parts_of(resumed))->progress.step == 6);
  resumed.run(6, 12);
  for (std::size_t d = 0; d < 3; ++d) CHECK(values_of(resumed.replicas[d]) == values_of(whole.replicas[0]));
  CHECK(difference(resumed.state(), whole.state()).empty());
}

TEST_CASE("sharded checkpoint: one of N devices loads on M, sharded or not") {
  const TemporaryFolder folder;
  BranchingTraining whole(3, kSharded, adamw());
  whole.run(0, 6);
  CheckpointFolder checkpoints(folder.file("run"));
  checkpoints.save(parts_of(whole), {6, 0, 0});
  const auto expected = values_of(whole.replicas[0]);
  for (const std::size_t devices : {1, 2, 4})
    for (const Sharding sharding : {Sharding::none, kSharded}) {
      CAPTURE(devices);
      BranchingTraining other(devices, sharding, adamw(), {}, blank());
      checkpoints.load_newest(parts_of(other));
      for (Branching& replica : other.replicas) CHECK(values_of(replica) == expected);
      CHECK(difference(other.state(), whole.state()).empty());
      other.run(6, 8);
      for (Branching& replica : other.replicas) CHECK(values_of(replica) == values_of(other.replicas[0]));
    }
}

TEST_CASE("sharded checkpoint: the first of several processes writes, and any number of them goes on") {
  const TemporaryFolder folder;
  const auto run = [&](const std::vector<std::uint32_t>& split, bool resumes, int first, int last) {
    ProcessThreads group(split);
    std::vector<float> values;
    const auto errors = group.run({.sharding = kSharded, .bucket_bytes = 256}, [&](std::size_t rank, auto& sync) {
      auto replicas = sync.replicate(resumes ? blank() : Branching{});
      std::vector<std::unique_ptr<ShardedOptimizer>> optimizers;
      for (const Device device : sync.devices())
        optimizers.push_back(std::make_unique<ShardedOptimizer>(sync, device, adamw()));
      CheckpointParts parts;
      std::vector<Branching*> models;
      for (Branching& replica : replicas) models.push_back(&replica);
      parts.add("model", models);
      parts.add("optimizer", pointers(optimizers));
      CheckpointFolder checkpoints(folder.file("run"));
      if (resumes) CHECK(checkpoints.load_newest(parts)->progress.step == first);
      run_devices(replicas.size(), [&](std::size_t d) {
        const Device device = sync.devices()[d];
        for (int step = first; step < last; ++step) {
          optimizers[d]->zero_grad();
          auto scope = sync.step(device, Branching::weight(step, device));
          scope.backward(replicas[d].loss(step, device));
          optimizers[d]->step();
        }
      });
      if (rank == 0) values = values_of(replicas[0]);
      if (resumes) return;
      if (rank == 0)
        checkpoints.save(parts, {last, 0, 0});
      else
        static_cast<void>(parts.save({.include = {"optimizer"}}));
    });
    for (const std::string& error : errors) CHECK(error == "");
    return values;
  };
  BranchingTraining whole(4, Sharding::none, adamw());
  whole.run(0, 6);
  CHECK(run({2, 2}, false, 0, 6) == values_of(whole.replicas[0]));
  whole.run(6, 12);
  for (const std::vector<std::uint32_t>& split : {std::vector<std::uint32_t>{4}, {1, 3}, {1, 1, 1, 1}})
    CHECK(run(split, true, 6, 12) == values_of(whole.replicas[0]));
}

TEST_CASE("sharded checkpoint: what does not fit changes nothing on any device") {
  BranchingTraining whole(2, kSharded, adamw());
  whole.run(0, 3);
  const PartStates saved = parts_of(whole).save();
  BranchingTraining other(2, kSharded, sgd());
  other.run(0, 2);
  const auto before = values_of(other.replicas[0]);
  const Optimizer::State state = other.state();
  CHECK_THROWS_WITH_AS(parts_of(other).load(saved), doctest::Contains("does not fit part \"optimizer\""), DataError);
  for (Branching& replica : other.replicas) CHECK(values_of(replica) == before);
  CHECK(difference(other.state(), state).empty());
}

TEST_CASE("sharded checkpoint: what a compression keeps is a part, and training continues bitwise") {
  const TemporaryFolder folder;
  const PowerSgdOptions options{.rank = 2, .start_after = 1, .minimum_rate = 1};
  const auto parts_of_group = [](CompressingGroup& group) {
    CheckpointParts parts;
    parts.add("compression", *group.power);
    return parts;
  };
  CompressingGroup whole(options);
  whole.run(4, everything);
  CheckpointFolder checkpoints(folder.file("run"));
  checkpoints.save(parts_of_group(whole), {4, 0, 0});
  whole.run(3, everything);
  CompressingGroup resumed(options);
  checkpoints.load_newest(parts_of_group(resumed));
  resumed.run(3, everything);
  for (std::size_t d = 0; d < kGroupDevices; ++d)
    CHECK(floats_of(resumed.replicas[d].wide.grad()) == floats_of(whole.replicas[d].wide.grad()));
  CHECK(resumed.kept("wide", 1) == whole.kept("wide", 1));
}

TEST_CASE("sharded checkpoint: another kind of optimizer refuses it, sharded or not") {
  BranchingTraining whole(2, kSharded, adamw());
  whole.run(0, 2);
  CHECK(whole.state().kind == "AdamW");
  const PartStates saved = parts_of(whole).save();
  const auto adam = [](std::vector<Tensor> pieces) -> std::unique_ptr<Optimizer> {
    return std::make_unique<Adam>(std::move(pieces), 0.01);
  };
  for (const Sharding sharding : {Sharding::none, kSharded}) {
    BranchingTraining other(2, sharding, adam);
    CHECK_THROWS_WITH_AS(parts_of(other).load(saved), doctest::Contains("optimizer AdamW, this one is Adam"),
                         DataError);
  }
}

TEST_SUITE_END();
