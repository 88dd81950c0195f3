// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/sharded/sharded_optimizer.h>

#include <tutti/autodiff/operations.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/test_devices.h>

#include <memory>
#include <string>
#include <vector>

namespace tutti::testing {

/// Parameters of many lengths, so that shares are cut inside and between them, and two of which a step may use one.
struct Branching : Module {
  Tensor in = filled({6, 13}, 1);
  Tensor in_bias = filled({13}, 2);
  Tensor left = filled({13, 37}, 3);
  Tensor right = filled({13, 37}, 4);
  Tensor out = filled({37, 3}, 5);
  Tensor out_bias = filled({3}, 6);
  Tensor scale = filled({}, 7);
  void visit(MemberVisitor& v) override {
    v.parameter("in", in);
    v.parameter("in_bias", in_bias);
    v.parameter("left", left);
    v.parameter("right", right);
    v.parameter("out", out);
    v.parameter("out_bias", out_bias);
    v.parameter("scale", scale);
  }

  static Tensor filled(const Shape& shape, int seed) { return Tensor(numbers(shape, seed, test_device()), true); }
  /// Between -0.5 and 0.5; the same wherever it is made.
  static Array numbers(const Shape& shape, int seed, Device device) {
    std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
    auto state = static_cast<std::uint32_t>(seed) * 2654435761U + 1U;
    for (float& value : values) {
      state = state * 1664525U + 1013904223U;
      value = static_cast<float>(state >> 8U) / static_cast<float>(1U << 24U) - 0.5F;
    }
    return Array::from(values, shape, device);
  }

  Tensor loss(int step, Device device) const {
    const int data = 1000 * step + device.index;
    const Tensor x(numbers({4, 6}, data, device));
    const Tensor y(numbers({4, 3}, data + 500, device));
    const Tensor hidden = tanh(matmul(x, in) + in_bias);
    const bool uses_right = step % 5 != 0 && (step + device.index) % 3 == 0;  // some steps on no device
    const Tensor wide = tanh(matmul(hidden, uses_right ? right : left));
    return mean(square((matmul(wide, out) + out_bias) * scale - y));
  }
  static double weight(int step, Device device) {
    if (step % 11 == 7) return 0.0;  // skipped: no examples anywhere
    return (step + 2 * device.index) % 4;
  }
};

inline ShardedOptimizer::Factory sgd() {
  return [](std::vector<Tensor> pieces) -> std::unique_ptr<Optimizer> {
    return std::make_unique<Sgd>(std::move(pieces), 0.05, SgdOptions{.momentum = 0.9, .weight_decay = 0.01});
  };
}
inline ShardedOptimizer::Factory adamw() {
  return [](std::vector<Tensor> pieces) -> std::unique_ptr<Optimizer> {
    return std::make_unique<AdamW>(std::move(pieces), 0.01);
  };
}

/// Replicas on several devices and, on each, an optimizer that is sharded or not.
struct BranchingTraining {
  BranchingTraining(std::size_t devices, Sharding sharding, const ShardedOptimizer::Factory& factory,
                    SyncOptions options = {}, const Branching& model = {})
      : devices(test_devices(devices)) {
    options.sharding = sharding;
    options.bucket_bytes = 256;  // several buckets, several laps
    sync = std::make_unique<GradientSync>(this->devices, options);
    replicas = sync->replicate(model);
    for (std::size_t d = 0; d < devices; ++d)
      if (sharding == Sharding::none)
        plain.push_back(factory(replicas[d].parameters()));
      else
        sharded.push_back(std::make_unique<ShardedOptimizer>(*sync, this->devices[d], factory));
  }

  void backward(std::size_t d, int step) {
    if (sharded.empty())
      plain[d]->zero_grad();
    else
      sharded[d]->zero_grad();
    auto scope = sync->step(devices[d], Branching::weight(step, devices[d]));
    scope.backward(replicas[d].loss(step, devices[d]));
  }
  void update(std::size_t d) {
    if (sharded.empty())
      plain[d]->step();
    else
      sharded[d]->step();
  }
  void run(int first, int last) {
    run_devices(devices.size(), [&](std::size_t d) {
      for (int step = first; step < last; ++step) {
        backward(d, step);
        update(d);
      }
    });
  }
  Optimizer::State state() {
    if (sharded.empty()) return plain.front()->state();
    std::vector<Optimizer::State> states(devices.size());
    run_devices(devices.size(), [&](std::size_t d) { states[d] = sharded[d]->state(); });
    return states.back();
  }
  void load_state(const Optimizer::State& state) {
    for (const auto& optimizer : plain) optimizer->load_state(state);
    for (const auto& optimizer : sharded) optimizer->load_state(state);
  }

  std::vector<Device> devices;
  std::unique_ptr<GradientSync> sync;
  std::vector<Branching> replicas;
  std::vector<std::unique_ptr<Optimizer>> plain;
  std::vector<std::unique_ptr<ShardedOptimizer>> sharded;
};

/// All of a replica's parameters, one after the other.
inline std::vector<float> values_of(Branching replica) {
  std::vector<float> values;
  for (const Tensor& parameter : replica.parameters())
    for (const float value : parameter.to_vector<float>()) values.push_back(value);
  return values;
}

/// "" or what differs.
inline std::string difference(const Optimizer::State& a, const Optimizer::State& b) {
  if (a.steps != b.steps) return "steps";
  if (a.learning_rates != b.learning_rates) return "learning rates";
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    const auto& one = a.parameters[i];
    const auto& other = b.parameters[i];
    const std::string which = " of parameter " + std::to_string(i);
    if (one.steps != other.steps) return "steps" + which;
    if (one.group != other.group) return "group" + which;
    if (one.arrays.size() != other.arrays.size()) return "arrays" + which;
    for (std::size_t k = 0; k < one.arrays.size(); ++k)
      if (one.arrays[k].first != other.arrays[k].first ||
          one.arrays[k].second.shape() != other.arrays[k].second.shape() ||
          one.arrays[k].second.to_vector<float>() != other.arrays[k].second.to_vector<float>())
        return one.arrays[k].first + which;
  }
  return {};
}

}  // namespace tutti::testing
