// SPDX-License-Identifier: Apache-2.0
// The models whose step times docs/performance.md shows.
#include <tutti/benches/models.h>
#include <tutti/nn/loss.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/list_stream.h>
#include <tutti/train/graph_trainer.h>

#include <doctest/doctest.h>

using namespace tutti;

namespace {

constexpr std::int64_t kSteps = 6;  // of which the fourth and the last are replayed

template <template <class> class TrainerOf> std::vector<float> weights_after(const bench::Workload& workload) {
  Generator random(1);
  Sequential model = workload.make_model(random);
  model.detach_members_to(test_device());
  const auto optimizer = workload.make_optimizer(model.parameters());
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < kSteps; ++i) {
    auto [inputs, targets] = workload.make_batch(random, test_device());
    batches.push_back({std::move(inputs), std::move(targets), workload.batch});
  }
  ListStream data(std::move(batches));
  TrainerOf<Batch> trainer(model, *optimizer, data, [&](const Batch& batch) -> Losses {
    return {{"loss", cross_entropy(model.forward(batch.inputs), batch.targets)}};
  });
  trainer.train({.epochs = 1});
  if constexpr (requires { trainer.captures(); }) CHECK(trainer.captures().replayed == 2);
  std::vector<float> weights;
  for (const Tensor& parameter : model.parameters())
    for (const float value : parameter.template to_vector<float>()) weights.push_back(value);
  return weights;
}

void check_same(const bench::Workload& workload, std::size_t values) {
  const auto eager = weights_after<EagerTrainer>(workload);
  const auto graph = weights_after<GraphTrainer>(workload);
  CHECK(eager.size() == values);
  CHECK(eager == graph);
}

}  // namespace

TEST_CASE("GraphTrainer: a small MLP's parameters are bitwise EagerTrainer's") {
  check_same(bench::kSmallMlp, 669'706);
}
TEST_CASE("GraphTrainer: a large MLP's parameters are bitwise EagerTrainer's") {
  check_same(bench::kLargeMlp, 3'962'890);
}
TEST_CASE("GraphTrainer: a GPT's parameters are bitwise EagerTrainer's") { check_same(bench::kGpt, 826'368); }
TEST_CASE("GraphTrainer: a CNN's parameters are bitwise EagerTrainer's") { check_same(bench::kCnn, 50'186); }
