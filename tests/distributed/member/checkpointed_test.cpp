// SPDX-License-Identifier: Apache-2.0
// Checkpointed layers under GradientSync: the same trajectory, every gradient final once.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/checkpoint.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <memory>

using namespace tutti;
using namespace tutti::testing;

namespace {

Tensor parameter(double first) {
  return Tensor(Array::from(std::vector<double>{first, first / 2, -first, 0.25}, {4}, test_device()), true);
}

/// `shared` is read by both layers and outside; `branch` by some devices only.
struct Layers : Module {
  Tensor first = parameter(0.9);
  Tensor second = parameter(0.7);
  Tensor shared = parameter(0.4);
  Tensor branch = parameter(-0.6);
  bool checkpointed = false;

  Tensor layer(const Tensor& weight, const Tensor& x, bool branches) const {
    const auto f = [this, weight, branches](const Tensor& in) {
      const Tensor h = tanh(in * weight + shared);
      return branches ? h * branch : h;
    };
    return checkpointed ? checkpoint(f, x) : f(x);
  }
  Tensor loss(const Tensor& x, bool branches) const {
    return sum(square(layer(second, layer(first, x, false), branches) * shared));
  }
  void visit(MemberVisitor& v) override {
    v.parameter("first", first);
    v.parameter("second", second);
    v.parameter("shared", shared);
    v.parameter("branch", branch);
  }
};

std::vector<std::vector<double>> trained(bool checkpointed, Overlap overlap, std::size_t devices) {
  GradientSync sync(test_devices(devices), {.overlap = overlap, .bucket_bytes = 0, .consistency_every = 1});
  Layers model;
  model.checkpointed = checkpointed;
  auto replicas = sync.replicate(model);
  std::vector<std::unique_ptr<Sgd>> optimizers;
  for (std::size_t d = 0; d < devices; ++d) {
    optimizers.push_back(std::make_unique<Sgd>(replicas[d].parameters(), 0.05, SgdOptions{.momentum = 0.9}));
    sync.attach(test_device(d), *optimizers[d]);
  }
  run_devices(devices, [&](std::size_t d) {
    for (int i = 0; i < 6; ++i) {
      const Tensor x(Array::full({4}, 0.1 * i + 0.3 * static_cast<double>(d), DType::f64, test_device(d)));
      auto step = sync.step(test_device(d));
      step.backward(replicas[d].loss(x, (static_cast<int>(d) + i) % 2 == 0));
      if (overlap == Overlap::in_backward) continue;
      optimizers[d]->step();
      optimizers[d]->zero_grad();
    }
  });
  std::vector<std::vector<double>> values;
  for (Layers& replica : replicas)
    for (const Tensor& each : replica.parameters()) values.push_back(each.to_vector<double>());
  return values;
}

}  // namespace

// A parameter that several layers share has its contributions added in another order: not bitwise.
TEST_CASE("checkpointed: the trajectory is that of the plain layers, in every overlap") {
  for (const Overlap overlap : {Overlap::immediate, Overlap::in_backward})
    for (const std::size_t devices : {1, 3}) {
      const auto plain = trained(false, overlap, devices);
      const auto kept = trained(true, overlap, devices);
      for (std::size_t p = 0; p < plain.size(); ++p)
        for (std::size_t i = 0; i < plain[p].size(); ++i)
          CHECK(kept[p][i] == doctest::Approx(plain[p][i]).epsilon(1e-12));
    }
}

TEST_CASE("checkpointed: outside a step a replica's parameters are named, as without") {
  GradientSync sync(test_devices(1));
  Layers model;
  model.checkpointed = true;
  auto replicas = sync.replicate(model);
  const Tensor x(Array::full({4}, 0.5, DType::f64, test_device()));
  CHECK_THROWS_WITH_AS(backward(replicas[0].loss(x, false)), doctest::Contains("belongs to a synchronisation group"),
                       AutodiffError);
}
