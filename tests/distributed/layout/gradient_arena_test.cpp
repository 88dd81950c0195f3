// SPDX-License-Identifier: Apache-2.0
// Where gradients lie: aligned, neighbours in the order of readiness, reduced in place as buckets.
#include <tutti/distributed/layout/gradient_arena.h>

#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace tutti;
using namespace tutti::testing;

namespace {

const std::vector<SyncParameter> kMixed{
    {"a", {3}, DType::f32}, {"b", {2, 20}, DType::f64}, {"c", {40}, DType::f32}, {"d", {}, DType::f64}};

/// A chain of scalars-times-vectors: gradients become final from the last to the first.
struct Chain : Module {
  explicit Chain(std::size_t count = 6) {
    for (std::size_t i = 0; i < count; ++i)
      links.emplace_back(Array::full({4}, 1.0 + 0.1 * static_cast<double>(i), DType::f64, test_device()), true);
  }
  void visit(MemberVisitor& v) override {
    for (std::size_t i = 0; i < links.size(); ++i) v.parameter("link" + std::to_string(i), links[i]);
  }
  Tensor loss(double x, bool backwards = false) const {
    Tensor y(Array::full({4}, x, DType::f64, links.front().device()));
    for (std::size_t i = 0; i < links.size(); ++i) y = y * links[backwards ? links.size() - 1 - i : i];
    return sum(y);
  }
  std::vector<Tensor> links;
};

const std::byte* place(const Tensor& parameter) { return parameter.gradient_slot().gradient.raw_data(); }

template <class Loss> void steps_of(GradientSync& sync, std::vector<Chain>& replicas, int count, Loss loss) {
  run_devices(replicas.size(), [&](std::size_t d) {
    for (int i = 0; i < count; ++i) {
      replicas[d].zero_grad();
      auto step = sync.step(test_device(d));
      step.backward(loss(replicas[d], 1.0 + static_cast<double>(d)));
    }
  });
}

std::size_t launches(const GradientSync& sync) {
  std::set<SyncReport::Time> times;
  const SyncReport report = sync.report();
  for (const auto& reduction : report.steps.back().reductions) times.insert(reduction.launched);
  return times.size();
}

}  // namespace

TEST_CASE("gradient_layout: aligned places in the given order, dtypes apart") {
  const ParameterId order[] = {{2}, {3}, {0}, {1}};
  const GradientLayout layout(kMixed, order);
  REQUIRE(layout.flats().size() == 2);
  CHECK(layout.place_of({2}).offset == 0);
  CHECK(layout.place_of({0}).offset == 48);  // 40 elements, then the next multiple of 16
  CHECK(layout.place_of({3}).offset == 0);
  CHECK(layout.place_of({1}).offset == 8);
  CHECK(layout.position_of({2}) + 1 == layout.position_of({0}));
  CHECK(layout.bytes() == (48 + 16) * 4 + (8 + 40) * 8);
}

TEST_CASE("gradient_arena: views of the parameters' shapes, buckets over neighbours, zeros at first") {
  const ParameterId order[] = {{2}, {3}, {0}, {1}};
  const auto layout = std::make_shared<const GradientLayout>(kMixed, order);
  const GradientArena arena(layout, kMixed, test_device());
  CHECK(arena.gradient({1}).shape() == Shape{2, 20});
  CHECK(arena.gradient({3}).shape() == Shape{});
  Array(arena.gradient({0})).fill(5);
  const auto both = layout->places().subspan(layout->position_of({2}), 2);
  const Array bucket = arena.bucket(both);
  REQUIRE(bucket.size() == 51);
  const auto values = bucket.to_vector<float>();
  CHECK(values[0] == 0);
  CHECK(values[48] == 5);
  CHECK(gradient_in(bucket, both, both[1], {3}).raw_data() == arena.gradient({0}).raw_data());
}

TEST_CASE("gradient_sync: gradients lie in the order in which they became final, and travel together") {
  GradientSync sync(test_devices(2));
  auto replicas = sync.replicate(Chain());
  steps_of(sync, replicas, 2, [](const Chain& chain, double x) { return chain.loss(x); });
  for (const Chain& chain : replicas)
    for (std::size_t i = 0; i + 1 < chain.links.size(); ++i) CHECK(place(chain.links[i]) > place(chain.links[i + 1]));
  CHECK(launches(sync) == 1);
}

TEST_CASE("gradient_sync: the layout follows when the order changes, after some steps") {
  GradientSync sync(test_devices(2));
  auto replicas = sync.replicate(Chain());
  steps_of(sync, replicas, 2, [](const Chain& chain, double x) { return chain.loss(x); });
  steps_of(sync, replicas, 1, [](const Chain& chain, double x) { return chain.loss(x, true); });
  CHECK(place(replicas[0].links[0]) > place(replicas[0].links[1]));
  steps_of(sync, replicas, 5, [](const Chain& chain, double x) { return chain.loss(x, true); });
  for (const Chain& chain : replicas) CHECK(place(chain.links[0]) < place(chain.links[1]));
  CHECK(launches(sync) == 1);
}

TEST_CASE("gradient_sync: a change of layout loses nothing that was accumulated") {
  GradientSync sync(test_devices(2), {.reduction = GradientReduction::mean});
  auto replicas = sync.replicate(Chain());
  run_devices(2, [&](std::size_t d) {
    Chain& chain = replicas[d];
    for (int i = 0; i < 12; ++i) {
      const bool backwards = i > 3;  // learned again around step 7
      chain.zero_grad();
      auto step = sync.step(test_device(d));
      {
        const NoSync local = step.no_sync();
        backward(chain.loss(1.0 + static_cast<double>(d), backwards));
        backward(sum(chain.links[2] * 10));
      }
      step.backward(sum(chain.links[0] * 2.0));
      const Chain reference;
      const Tensor inputs[] = {reference.links[0], reference.links[2]};
      const auto expected = grad(reference.loss(1.5), inputs);
      for (std::size_t k = 0; k < 4; ++k) {
        CHECK(gradient_of(chain.links[0])[k] == doctest::Approx(expected[0].to_vector<double>()[k] + 2));
        CHECK(gradient_of(chain.links[2])[k] == doctest::Approx(expected[1].to_vector<double>()[k] + 10));
      }
    }
  });
}

TEST_CASE("gradient_sync: results do not depend on the size of buckets, bit for bit") {
  std::vector<std::vector<double>> results;
  for (const std::size_t bucket_bytes : {std::size_t{0}, std::size_t{100}, std::size_t{1} << 30}) {
    SyncOptions options;
    options.bucket_bytes = bucket_bytes;
    GradientSync sync(test_devices(3), options);
    auto replicas = sync.replicate(Chain());
    steps_of(sync, replicas, 4, [](const Chain& chain, double x) { return chain.loss(0.1 * x); });
    std::vector<double> all;
    for (const Tensor& link : replicas[1].links)
      for (const double value : gradient_of(link)) all.push_back(value);
    results.push_back(all);
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

TEST_CASE("gradient_sync: what the user holds of a step keeps its values in later ones") {
  GradientSync sync(test_devices(2), {.reduction = GradientReduction::mean});
  auto replicas = sync.replicate(TwoBranches{});
  run_devices(2, [&](std::size_t d) {
    std::vector<Tensor> held;
    for (int i = 0; i < 5; ++i) {
      replicas[d].zero_grad();
      auto step = sync.step(test_device(d));
      step.backward(use(replicas[d].left, i));
      held.push_back(replicas[d].left.grad());
    }
    for (int i = 0; i < 5; ++i) {
      const auto value = static_cast<double>(i);
      CHECK(held[static_cast<std::size_t>(i)].to_vector<double>() == Values{value, value});
    }
  });
}

TEST_CASE("gradient_sync: memory of gradients is their size and no more than 5 %") {
  Generator random(1);
  Sequential model;
  for (int layer = 0; layer < 3; ++layer) model.append(Linear(256, 256, random));
  GradientSync sync(test_devices(2));
  auto replicas = sync.replicate(model);
  std::size_t gradients = 0;
  for (const Tensor& parameter : replicas[0].parameters()) gradients += parameter.array().bytes();
  run_devices(2, [&](std::size_t d) {
    const Device device = test_device(d);
    MemoryPool& pool = memory_pool(device);
    const Tensor x(Array::full({1, 256}, 0.01, DType::f32, device));
    const std::size_t before = pool.statistics().in_use;
    for (int i = 0; i < 4; ++i) {
      replicas[d].zero_grad();
      auto step = sync.step(device);
      step.backward(sum(square(replicas[d].forward(x))));
      synchronize(device);
      CHECK(pool.statistics().in_use - before <= gradients + gradients / 20);
      if (i == 2) pool.reset_peak();
    }
    // The activations of one example are small beside a weight: none was made elsewhere and copied in.
    CHECK(pool.statistics().peak_in_use - before <= gradients + gradients / 20 + 64 * 1024);
  });
}
