// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/power_sgd.h>
#include <tutti/tests/distributed/compression/matrices.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/test_devices.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::testing {

inline constexpr std::size_t kGroupDevices = 3;

inline Device device(std::size_t d) { return test_device(d); }

/// What one device puts into a step.
struct Part {
  double weight = 1.0;
  bool wide = true;
  bool kernel = true;
};
inline Floats wide_gradient(int step, std::size_t d) {
  return random_floats(12 * 20, 100 + static_cast<unsigned>(step), d);
}
inline Floats kernel_gradient(int step, std::size_t d) {
  return random_floats(16 * 18, 900 + static_cast<unsigned>(step), d);
}
inline Floats bias_gradient(int step, std::size_t d) { return random_floats(7, 500 + static_cast<unsigned>(step), d); }

/// Three devices whose gradients are random numbers.
struct CompressingGroup {
  explicit CompressingGroup(const PowerSgdOptions& options, SyncOptions sync_options = {},
                            std::unique_ptr<Communicator> engine = nullptr)
      : power(std::make_shared<PowerSgd>(options)),
        sync(test_devices(kGroupDevices), with(sync_options), std::move(engine)) {
    replicas = sync.replicate(Matrices{});
  }
  SyncOptions with(SyncOptions options) {
    options.compression = power;
    return options;
  }

  void step(std::size_t d, int number, const Part& part) {
    Matrices& model = replicas[d];
    model.zero_grad();
    auto step = sync.step(device(d), part.weight);
    Tensor loss = with_gradient(model.bias, bias_gradient(number, d));
    if (part.wide) loss = loss + with_gradient(model.wide, wide_gradient(number, d));
    if (part.kernel) loss = loss + with_gradient(model.kernel, kernel_gradient(number, d));
    step.backward(loss);
  }

  /// All devices take these steps; `after` runs on each device's thread when a step has been joined.
  void run(int steps, const std::function<Part(int, std::size_t)>& part,
           const std::function<void(int, std::size_t)>& after = {}) {
    run_devices(kGroupDevices, [&](std::size_t d) {
      for (int i = 0; i < steps; ++i) {
        step(d, i, part(i, d));
        if (after) after(i, d);
      }
    });
  }

  Floats kept(const std::string& name, std::size_t d) const {
    for (const auto& [array_name, array] : power->state())
      if (array_name == "power_sgd:" + name + ":kept:" + std::to_string(d)) return array.to_vector<float>();
    return {};
  }

  std::shared_ptr<PowerSgd> power;
  GradientSync sync;
  std::vector<Matrices> replicas;
};

inline Part everything(int, std::size_t) { return {}; }

}  // namespace tutti::testing
