// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/tests/backend/cuda/recording/recording_cuda.h>

#include <cstdint>
#include <functional>
#include <string>

namespace tutti::testing {

/// Lets the kernels of backend/cuda/kernels/collective.cu happen on the simulated devices, for f32.
inline void simulate_collective_kernels(RecordingCuda& machine) {
  machine.declare_kernel("::update", {{.argument = 0, .write = true}, {.argument = 1}});
  machine.on_kernel("::update", [](const KernelLaunch& launch) -> std::function<void()> {
    auto* const values = *static_cast<float**>(launch.arguments[0]);
    const auto* const other = *static_cast<const float**>(launch.arguments[1]);
    const std::int64_t count = *static_cast<std::int64_t*>(launch.arguments[2]);
    const float denominator = *static_cast<float*>(launch.arguments[3]);  // of a quotient
    const auto has = [&](const char* part) { return launch.name.find(part) != std::string::npos; };
    const auto each = [=](auto f) -> std::function<void()> {
      return [=] {
        for (std::int64_t i = 0; i < count; ++i) values[i] = f(values[i], other[i]);
      };
    };
    if (has("Quotient<float>")) return each([=](float a, float) { return a / denominator; });
    if (has("Sum<float>")) return each([](float a, float b) { return a + b; });
    if (has("Larger<float>")) return each([](float a, float b) { return a > b || a != a ? a : b; });
    if (has("Smaller<float>")) return each([](float a, float b) { return a < b || a != a ? a : b; });
    return {};
  });
}

}  // namespace tutti::testing
