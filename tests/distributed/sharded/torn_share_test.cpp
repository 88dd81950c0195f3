// SPDX-License-Identifier: Apache-2.0
// When a sharded step is torn, and for how long.
#include <tutti/backend/error.h>
#include <tutti/tests/distributed/sharded/sharded_training.h>

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr Sharding kShardings[] = {Sharding::optimizer_state, Sharding::gradients};

std::exception_ptr disk_full() { return std::make_exception_ptr(std::runtime_error("disk full")); }

std::vector<std::string> rejoin(BranchingTraining& training, std::int64_t last_step) {
  return errors_of_devices(training.devices.size(),
                           [&](std::size_t d) { training.sync->rejoin(training.devices[d], last_step); });
}

std::vector<float> trained(int steps) {
  BranchingTraining reference(2, Sharding::none, sgd());
  reference.run(0, steps);
  return values_of(reference.replicas[0]);
}

}  // namespace

TEST_CASE("sharded: a torn step stays torn when the optimizers that tore it are gone") {
  const std::vector<float> expected = trained(4);
  for (const Sharding sharding : kShardings) {
    BranchingTraining training(2, sharding, sgd());
    training.run(0, 2);
    const Optimizer::State state = training.state();
    std::vector<Array> parameters;
    for (const Tensor& parameter : training.replicas[0].parameters()) parameters.push_back(parameter.array().copy());

    run_devices(2, [&](std::size_t d) { training.backward(d, 2); });
    training.sharded[0]->step_async();
    training.sync->fail(training.devices[1], disk_full());
    for (auto& optimizer : training.sharded) optimizer = nullptr;
    const std::string torn = "the parameters of " + to_string(training.devices[0]) + " are between steps 2 and 3";
    for (const std::string& error : rejoin(training, 2)) CHECK_MESSAGE(error.find(torn) != std::string::npos, error);

    for (std::size_t d = 0; d < 2; ++d)
      training.sharded[d] = std::make_unique<ShardedOptimizer>(*training.sync, training.devices[d], sgd());
    CHECK_FALSE(training.sharded[0]->whole());
    CHECK_FALSE(training.sharded[1]->whole());
    for (const std::string& error : rejoin(training, 2)) CHECK_MESSAGE(error.find(torn) != std::string::npos, error);
    training.load_state(state);
    for (Branching& replica : training.replicas)
      for (std::size_t i = 0; i < parameters.size(); ++i)
        Array(replica.parameters()[i].array()).copy_from(parameters[i]);
    for (const std::string& error : rejoin(training, 2)) CHECK(error == "");
    training.run(2, 4);
    for (const Branching& replica : training.replicas) CHECK(values_of(replica) == expected);
  }
}

TEST_CASE("sharded: an update that the others can no longer complete is not begun") {
  const std::vector<float> expected = trained(4);
  for (const Sharding sharding : kShardings) {
    BranchingTraining training(2, sharding, sgd());
    training.run(0, 2);
    const std::vector<float> before = values_of(training.replicas[0]);
    run_devices(2, [&](std::size_t d) { training.backward(d, 2); });
    training.sync->fail(training.devices[1], disk_full());
    CHECK_THROWS_WITH_AS(training.sharded[0]->step(), doctest::Contains("disk full"), SyncError);
    CHECK(training.sharded[0]->steps() == 2);
    CHECK(training.sharded[0]->whole());
    CHECK(values_of(training.replicas[0]) == before);
    for (const std::string& error : rejoin(training, 2)) CHECK(error == "");
    training.run(2, 4);
    for (const Branching& replica : training.replicas) CHECK(values_of(replica) == expected);
  }
}
