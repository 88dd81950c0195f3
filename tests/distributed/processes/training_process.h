// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/power_sgd.h>
#include <tutti/nn/linear.h>
#include <tutti/optim/sgd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace tutti::testing {

/// End of the job's name in which a rank trains after an error.
constexpr const char* kSecondJob = ", second";

/// What a rank of group_processes_test.cpp trains, and the test in one process, to compare with.
struct TrainedModel : Module {
  explicit TrainedModel(Generator random) : hidden(16, 33, random), output(33, 4, random) {}
  Tensor forward(const Tensor& x) const { return output.forward(tanh(hidden.forward(x))); }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("output", output);
  }
  Linear hidden;
  Linear output;
};

/// `optimizer`: a sharded one, or any.
inline void train_step(GradientSync& sync, TrainedModel& model, auto& optimizer, Device device, std::size_t number,
                       int i) {
  Generator random(5, static_cast<std::uint64_t>(i) * 64 + number);
  optimizer.zero_grad();
  auto step = sync.step(device);
  const Tensor y = model.forward(Tensor(random.normal({6, 16}, DType::f32, device)));
  step.backward(mean(y * y));
  optimizer.step();
}

/// A momentum, which sharded optimizers keep a share of.
inline std::unique_ptr<Sgd> trained_sgd(std::vector<Tensor> parameters) {
  return std::make_unique<Sgd>(std::move(parameters), 0.05, SgdOptions{.momentum = 0.9});
}

inline std::shared_ptr<PowerSgd> trained_compression() {
  return std::make_shared<PowerSgd>(PowerSgdOptions{.rank = 2, .start_after = 3, .minimum_rate = 1});
}

/// All bits of the parameters, in one number.
inline std::uint64_t digest_of(Module& model) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const Tensor& parameter : model.parameters())
    for (const float value : parameter.array().to_vector<float>()) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      hash = (hash ^ bits) * 0x100000001B3U;
    }
  return hash;
}

}  // namespace tutti::testing
