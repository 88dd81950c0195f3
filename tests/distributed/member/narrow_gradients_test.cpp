// SPDX-License-Identifier: Apache-2.0
// Parameters of bf16 and f16: gradients are summed in f32, in the devices' tree, and rounded once.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/distributed/replica/finite_check.h>
#include <tutti/nn/embedding.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/sharded/sharded_training.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tutti;
using namespace tutti::testing;

namespace {

Device device(std::size_t d) { return test_device(d); }

template <class T> std::vector<T> values(std::int64_t count, std::size_t device) {
  std::vector<T> result;
  for (std::int64_t i = 0; i < count; ++i)
    result.push_back(static_cast<T>(std::sin(0.1 * static_cast<double>(i) + static_cast<double>(device))));
  return result;
}

template <class T> std::vector<T> expected(std::int64_t count, std::size_t devices, float denominator) {
  std::vector<float> sums[5];
  for (std::size_t d = 0; d < devices; ++d)
    for (const T value : values<T>(count, d)) sums[d].push_back(static_cast<float>(value));
  std::vector<T> result;
  for (std::size_t i = 0; i < sums[0].size(); ++i) {
    const auto at = [&](std::size_t d) { return sums[d][i]; };
    float sum = at(0);
    if (devices > 1) sum += at(1);
    if (devices > 2) sum += devices > 3 ? at(2) + at(3) : at(2);
    if (devices > 4) sum += at(4);
    result.push_back(static_cast<T>(sum / denominator));
  }
  return result;
}

/// The same model with parameters of 16 bits, every other one of f16.
Branching narrow_branching() {
  Branching model;
  bool even = true;
  for (Tensor* tensor : {&model.in, &model.in_bias, &model.left, &model.right, &model.out, &model.out_bias}) {
    *tensor = Tensor(tensor->array().cast(even ? DType::bf16 : DType::f16), true);
    even = !even;
  }
  return model;
}

std::vector<double> all_values(Branching model) {
  std::vector<double> all;
  for (const Tensor& parameter : model.parameters())
    for (const double value : parameter.array().cast(DType::f64).to_vector<double>()) all.push_back(value);
  return all;
}

}  // namespace

// Of the engine for CPU devices.
TEST_CASE_TEMPLATE("narrow gradients: local sums are f32, rounded once" * doctest::test_suite("cpu"), T, BFloat16,
                   Float16) {
  LocalCommunicator communicator;
  for (const std::size_t devices : {1, 2, 3, 5})
    for (const std::int64_t count : {1, 33, 513, 1999}) {
      const float denominator = devices == 2 ? 2.0F : 3.0F;
      AllReduceRequest request;
      request.denominator = denominator;
      for (std::size_t d = 0; d < devices; ++d) {
        request.slices.push_back({Array::from(values<T>(count, d), {count}, device(d)), true});
        request.ready.push_back(compute_stream(device(d)).record());
      }
      const auto slices = request.slices;
      const std::shared_ptr<CollectiveTask> task[] = {communicator.all_reduce(std::move(request))};
      join_tasks(test_device(), task);
      for (const AllReduceSlice& slice : slices)
        CHECK(slice.gradient.template to_vector<T>() == expected<T>(count, devices, denominator));
    }
}

TEST_CASE("narrow gradients: collectives combine in the wide type") {
  GradientSync sync(test_devices(3));
  run_devices(3, [&](std::size_t d) {
    const auto reduce = [&](double mine, DType dtype, CollectiveOperation operation) {
      const Tensor x(Array::full({700}, mine, dtype, device(d)));
      const Tensor y = sync.all_reduce(device(d), x, operation).resolve();
      CHECK(y.dtype() == dtype);
      return y.array().slice(0, 699, 700).item<double>();
    };
    CHECK(reduce(d == 0 ? 256 : 1, DType::bf16, CollectiveOperation::sum) == 258);  // 256 + 1 is 256 in bf16
    CHECK(reduce(d == 0 ? 2048 : 1, DType::f16, CollectiveOperation::sum) == 2050);
    CHECK(reduce(60000, DType::f16, CollectiveOperation::mean) == 60000);  // the sum is more than f16 holds
    CHECK(reduce(static_cast<double>(d), DType::bf16, CollectiveOperation::max) == 2);
    CHECK(reduce(100, DType::i8, CollectiveOperation::sum) == 300 - 256);
    CHECK(reduce(static_cast<double>(d), DType::u8, CollectiveOperation::min) == 0);
    const Tensor gathered = sync.all_gather(device(d), Tensor(Array::full({1}, 7, DType::u8, device(d)))).resolve();
    CHECK(gathered.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{7, 7, 7});
  });
}

TEST_CASE("narrow gradients: replicas with parameters of three types stay equal, and train as with f32 gradients") {
  for (const auto& factory : {sgd(), adamw()}) {
    BranchingTraining training(3, Sharding::none, factory, {.check_finite = true, .consistency_every = 1},
                               narrow_branching());
    training.run(0, 20);
    const auto values = all_values(training.replicas[0]);
    CHECK(values != all_values(narrow_branching()));
    for (const Branching& replica : training.replicas) CHECK(all_values(replica) == values);
    BranchingTraining wide(3, Sharding::none, factory);
    wide.run(0, 20);
    const auto reference = all_values(wide.replicas[0]);
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::abs(values[i] - reference[i]) < 0.05);
    for (const auto& parameter : training.plain[0]->state().parameters)
      for (const auto& [name, array] : parameter.arrays) CHECK(array.dtype() == DType::f32);
  }
}

TEST_CASE("narrow gradients: a sharded optimizer's trajectory and state are the unsharded one's") {
  for (const Sharding sharding : {Sharding::optimizer_state, Sharding::gradients}) {
    BranchingTraining plain(3, Sharding::none, adamw(), {}, narrow_branching());
    BranchingTraining sharded(3, sharding, adamw(), {}, narrow_branching());
    plain.run(0, 10);
    sharded.run(0, 10);
    CHECK(difference(sharded.state(), plain.state()) == "");
    sharded.load_state(plain.state());
    plain.run(10, 14);
    sharded.run(10, 14);
    for (const Branching& replica : sharded.replicas) CHECK(all_values(replica) == all_values(plain.replicas[0]));
  }
}

TEST_CASE("narrow gradients: rows of a sparse table are summed in f32 and rounded once") {
  GradientSync sync(test_devices(3), {.reduction = GradientReduction::sum});
  Generator random(1);
  auto replicas = sync.replicate(Embedding(4, 2, random, {.sparse = true, .dtype = DType::bf16}));
  run_devices(3, [&](std::size_t d) {
    Sgd optimizer(replicas[d].parameters(), 1.0);
    Array(replicas[d].weight.array()).copy_from(Array::zeros({4, 2}, DType::bf16, device(d)));
    auto step = sync.step(device(d));
    const Tensor rows = replicas[d].forward(Tensor(Array::from(std::vector<std::int64_t>{2}, {1}, device(d))));
    step.backward(sum(rows * (d == 0 ? 256.0 : 1.0)));
    optimizer.step();
    CHECK(replicas[d].weight.array().cast(DType::f64).to_vector<double>() ==
          std::vector<double>{0, 0, 0, 0, -258, -258, 0, 0});
  });
}

TEST_CASE_TEMPLATE("narrow gradients: infinities and NaN are counted", T, BFloat16, Float16) {
  const std::vector<T> bad{T(1.0F), T(INFINITY), T(-INFINITY), T(NAN), T(65000.0F), T(0.0F)};
  const auto count = [](const Array& array) { return count_non_finite(array, compute_stream(test_device()).record()); };
  CHECK(count(Array::from(bad, {6}, test_device())) == 3);
  CHECK(count(Array::from(bad, {6}, test_device()).slice(0, 1, 6, 2)) == 2);
}
