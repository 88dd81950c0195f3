// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/custom_function.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/nn/module.h>
#include <tutti/tests/distributed/device_threads.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tutti::testing {

/// Its gradients come from the test, by copies alone: what a group makes of them can be compared between kinds of
/// devices whose other kernels do nothing.
struct GivenModel : Module {
  explicit GivenModel(DType dtype = DType::f32)
      : small(Array::zeros({7}, dtype, cpu(0)), true),
        matrix(Array::zeros({13, 9}, dtype, cpu(0)), true),
        large(Array::zeros({3000}, dtype, cpu(0)), true) {}
  Tensor small;
  Tensor matrix;
  Tensor large;
  void visit(MemberVisitor& v) override {
    v.parameter("small", small);
    v.parameter("matrix", matrix);
    v.parameter("large", large);
  }
};

inline Array given_gradient(const Tensor& parameter, int step, std::size_t device) {
  auto state = static_cast<std::uint32_t>(parameter.array().size() * 131 + step * 17 + static_cast<int>(device) + 1);
  std::vector<float> values;
  for (std::int64_t i = 0; i < parameter.array().size(); ++i) {
    state = state * 1664525U + 1013904223U;
    values.push_back(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-30F);
  }
  return Array::from(values, parameter.array().shape(), cpu(0)).cast(parameter.array().dtype());
}

/// Its gradients are those of that step on that device.
inline Tensor given_loss(const std::vector<Tensor>& parameters, int step, std::size_t d) {
  return custom_function(
      "given", parameters, [](std::span<const Array> in) { return Array::zeros({}, DType::f32, in[0].device()); },
      [=](std::span<const Array> inputs, const Array&, const Array&) {
        std::vector<Array> gradients;
        for (std::size_t i = 0; i < inputs.size(); ++i)
          gradients.push_back(given_gradient(parameters[i], step, d).to(inputs[i].device()));
        return gradients;
      });
}

/// In step 2 device 1 lacks a parameter, and in step 3 all but device 0 lack another one.
inline std::vector<Tensor> used(const GivenModel& model, int step, std::size_t d) {
  std::vector<Tensor> parameters;
  parameters.reserve(3);
  parameters.push_back(model.small);
  if (!(step == 2 && d == 1)) parameters.push_back(model.matrix);
  if (!(step == 3 && d > 0)) parameters.push_back(model.large);
  return parameters;
}

using GivenValues = std::vector<float>;
using GivenResults = std::vector<std::vector<GivenValues>>;  ///< by device: what it got, step by step

/// Five steps, with weights that differ; in the last, device 0 has nothing.
inline std::vector<GivenValues> take_given_steps(GradientSync& sync, GivenModel& model, Device device, std::size_t d) {
  std::vector<GivenValues> got;
  for (int i = 0; i < 5; ++i) {
    model.zero_grad();
    auto step = sync.step(device, i == 4 && d == 0 ? 0.0 : 1.0 + 2.0 * static_cast<double>(d));
    step.backward(given_loss(used(model, i, d), i, d));
    step.join();
    for (const Tensor& parameter : {model.small, model.matrix, model.large})
      got.push_back(parameter.grad().defined() ? parameter.grad().to(cpu(0)).cast(DType::f32).to_vector<float>()
                                               : GivenValues{});
  }
  return got;
}

inline GivenResults given_results(const std::vector<Device>& devices, const SyncOptions& options,
                                  DType dtype = DType::f32, std::unique_ptr<Communicator> engine = nullptr) {
  GradientSync sync(devices, options, std::move(engine));
  auto replicas = sync.replicate(GivenModel(dtype));
  GivenResults results(devices.size());
  run_devices(devices.size(), [&](std::size_t d) {
    results[d] = take_given_steps(sync, replicas[d], devices[d], d);
    sync.flush(devices[d]);
    sync.leave(devices[d]);
    synchronize(devices[d]);
  });
  return results;
}

}  // namespace tutti::testing
