// SPDX-License-Identifier: Apache-2.0
// What a compression keeps goes through a file, and training continues with the same bits.
#include <tutti/distributed/power_sgd.h>

#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/compression/compressing_group.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/linear_training.h>
#include <tutti/train/checkpoints/tensor_file.h>

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("compression_state: saved and loaded, it continues bitwise") {
  const TemporaryFolder folder;
  const std::string path = folder.file("power_sgd.safetensors");
  const PowerSgdOptions options{.rank = 2, .start_after = 1, .minimum_rate = 1};
  CompressingGroup whole(options);
  whole.run(4, everything);
  write_tensor_file(path, {.arrays = whole.power->state(), .metadata = {{"step", "4"}}});
  whole.run(3, everything);

  CompressingGroup resumed(options);
  resumed.power->load_state(read_tensor_file(path).arrays);
  resumed.run(3, everything);
  for (std::size_t d = 0; d < kGroupDevices; ++d)
    for (const auto parameter : {&Matrices::wide, &Matrices::kernel, &Matrices::bias})
      CHECK(floats_of((resumed.replicas[d].*parameter).grad()) == floats_of((whole.replicas[d].*parameter).grad()));
  CHECK(resumed.kept("wide", 1) == whole.kept("wide", 1));

  CompressingGroup anew(options);  // the file does matter
  anew.run(3, everything);
  CHECK(floats_of(anew.replicas[0].wide.grad()) != floats_of(whole.replicas[0].wide.grad()));
}

TEST_CASE("compression_state: a learner's parts have it, training continues bitwise, and it cannot be forgotten") {
  const auto devices = test_devices(2);
  const auto made = [&](bool compressed) {
    const SyncOptions sync{.compression =
                               compressed ? std::make_shared<PowerSgd>(PowerSgdOptions{.minimum_rate = 0}) : nullptr};
    return std::make_unique<LinearLearner>(
        linear_network(),
        LinearLearner::Parts{.optimizer = [](Linear& model) { return std::make_unique<Sgd>(model.parameters(), 0.1); },
                             .data =
                                 [&](std::size_t d) {
                                   std::vector<Batch> own;
                                   for (std::size_t i = 0; i < 9; ++i)
                                     own.push_back(random_batch(4, 100 * d + i, devices[d]));
                                   return std::make_unique<ListStream>(own);
                                 },
                             .losses = linear_losses},
        LearnerOptions{.devices = devices, .sync = sync});
  };
  const auto whole = made(true);
  CheckpointParts parts;
  whole->add_parts(parts);
  whole->train({.steps = 5});
  const PartStates states = parts.save();
  whole->train({.steps = 9});

  const auto resume = [&](LinearLearner& learner, const CheckpointFilter& filter) {
    CheckpointParts own;
    learner.add_parts(own);
    const auto unused = own.load(states, filter);
    learner.train({.steps = 9});
    return unused;
  };
  const auto weights = [](LinearLearner& learner) { return floats_of(learner.model().weight); };
  const auto resumed = made(true);
  CHECK(resume(*resumed, {}).empty());
  CHECK(weights(*resumed) == weights(*whole));
  const auto anew = made(true);  // left out on purpose
  resume(*anew, {.exclude = {"compression"}});
  CHECK(weights(*anew) != weights(*whole));
  CHECK(resume(*made(false), {}) == std::vector<std::string>{"compression"});

  const auto plain = made(false);
  CheckpointParts without;
  plain->add_parts(without);
  CheckpointParts with;
  resumed->add_parts(with);
  CHECK_THROWS_WITH_AS(with.load(without.save()), doctest::Contains("\"compression\""), DataError);
}

TEST_SUITE_END();
