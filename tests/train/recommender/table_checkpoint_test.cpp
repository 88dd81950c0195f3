// SPDX-License-Identifier: Apache-2.0
// Hash tables in checkpoints: with the module that they are in, by id.
#include <tutti/autodiff/backward.h>
#include <tutti/backend/error.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/train/recommender/click_training.h>
#include <tutti/train/checkpoints/checkpoint.h>
#include <tutti/train/checkpoints/checkpoint_folder.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// A model in training, without a trainer.
struct Training {
  Ranker model;
  SparseAdamW sparse{sparse_parameters(model), 0.02};
  AdamW dense{dense_parameters(model), 0.01};
  CheckpointParts parts;

  explicit Training(std::uint64_t seed = 1) : model(seed) {
    parts.add("model", model);
    parts.add("sparse", static_cast<Optimizer&>(sparse));
    parts.add("dense", static_cast<Optimizer&>(dense));
  }
  void steps(std::int64_t begin, std::int64_t end) {
    for (std::int64_t step = begin; step < end; ++step) {
      sparse.zero_grad();
      dense.zero_grad();
      const Examples clicks = clicks_of(step, 6);
      const Tensor logits = model.forward(Tensor(clicks.inputs.to(test_device())));
      backward(binary_cross_entropy_with_logits(logits, Tensor(clicks.targets.to(test_device()))));
      sparse.step();
      dense.step();
    }
  }
};

PartState& part(PartStates& states, const std::string& name) {
  return std::ranges::find(states, name, &PartStates::value_type::first)->second;
}

Array& array(PartStates& states, const std::string& name) {
  return std::ranges::find(part(states, "model").arrays, name, &NamedArrays::value_type::first)->second;
}

}  // namespace

TEST_CASE("table checkpoint: training goes on bitwise, with evictions, in another model and from the disk") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.file("run"), {.save_concurrency = 3});
  Training whole;
  whole.steps(0, 7);
  checkpoints.save(whole.parts, {.step = 7});  // written while training goes on
  whole.steps(7, 12);
  checkpoints.wait();
  CHECK(whole.model.users.table()->size() == 8);  // full: some went
  Training other(2);
  other.steps(30, 33);
  REQUIRE(checkpoints.load_newest(other.parts));
  other.steps(7, 12);
  CHECK((other.model.contents() == whole.model.contents()));
}

TEST_CASE("table checkpoint: the one-file form has them too") {
  const TemporaryFolder folder;
  Training first;
  first.steps(0, 3);
  save_checkpoint(folder.file("model"), first.model, &first.sparse);
  Training other(2);
  load_checkpoint(folder.file("model"), other.model, &other.sparse);
  CHECK((other.model.contents() == first.model.contents()));
}

TEST_CASE("table checkpoint: what does not fit names table and array, and changes nothing") {
  Training saved;
  saved.steps(0, 3);
  const auto refused = [&](const auto& damage, const char* text) {
    CAPTURE(text);
    PartStates states = saved.parts.save();
    damage(states);
    Training other(2);
    other.steps(20, 22);
    const auto before = other.model.contents();
    CHECK_THROWS_WITH_AS(other.parts.load(std::move(states)), doctest::Contains(text), DataError);
    CHECK((other.model.contents() == before));
  };
  refused(
      [](PartStates& states) {
        array(states, "users.rows") = Array::zeros({1, 3}, DType::f32, cpu());
      },
      "part \"model\": [load_tables] table \"users\": [hash_table] \"rows\" is [1, 3], it must be");
  refused([](PartStates& states) { array(states, "items.ids").fill(5); },
          "table \"items\": [hash_table] id 5 is there");
  refused([](PartStates& states) { array(states, "items.counts").fill(-1); }, "count -1");
  refused([](PartStates& states) { array(states, "users.last").fill(99); }, "last update 99 of 3");
  refused(
      [](PartStates& states) {
        std::erase_if(part(states, "model").arrays, [](const auto& named) { return named.first == "users.counts"; });
      },
      "\"counts\" is missing");
  refused(
      [](PartStates& states) {
        std::erase_if(part(states, "model").arrays,
                      [](const auto& named) { return named.first.starts_with("users."); });
      },
      "there is nothing for table \"users\"");
  refused(
      [](PartStates& states) {
        part(states, "model").arrays.emplace_back("friends.ids", Array::zeros({0}, DType::i64, cpu()));
      },
      "it holds \"friends.ids\", which the module does not have");
  refused([](PartStates& states) { part(states, "sparse").text = "{}"; }, "part \"sparse\"");
}

TEST_CASE("table checkpoint: a table that a filter leaves out keeps what it has") {
  Training saved;
  saved.steps(0, 3);
  Training other(2);
  other.steps(20, 22);
  const auto users = other.model.users.table()->save();
  other.parts.load(saved.parts.save({.exclude = {"model/users.*", "sparse", "dense"}}),
                   {.exclude = {"sparse", "dense"}});
  CHECK(other.model.users.table()->updates() == 2);
  CHECK(other.model.items.table()->updates() == 3);
  // The optimizer counts differently until it is told that this was meant.
  other.parts.load(saved.parts.save({.exclude = {"model/users.*"}}));
  CHECK_THROWS_WITH_AS(other.steps(3, 4), doctest::Contains("table \"users\""), Error);
  other.parts.load(saved.parts.save({.exclude = {"model/users.*"}}));
  other.sparse.accept_tables();
  other.steps(3, 4);
  CHECK(other.model.users.table()->updates() == 3);
  CHECK(other.model.items.table()->updates() == 4);
}

TEST_CASE("table checkpoint: from one device onto several") {
  Training saved;
  saved.steps(0, 5);
  std::vector<Ranker> replicas;
  std::vector<Ranker*> pointers;
  for (const Device device : test_devices(3)) replicas.push_back(clone(Ranker(3), device));
  for (Ranker& replica : replicas) pointers.push_back(&replica);
  CheckpointParts parts;
  parts.add("model", pointers);
  parts.load(saved.parts.save({}, CheckpointCopies::on_host), {.include = {"model/*"}});
  for (std::size_t d = 0; d < 3; ++d) {
    CHECK((replicas[d].contents() == saved.model.contents()));
    CHECK(replicas[d].users.table()->device() == test_device(d));
  }
}
