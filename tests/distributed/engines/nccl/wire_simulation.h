// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/wire.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/distributed/engines/peer/slice_simulation.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace tutti::testing {

/// `conversion`: how the type is written in kernels' names.
template <class F> void simulate_journeys(RecordingCuda& machine, std::string_view conversion) {
  struct Journey {
    typename F::To* to;
    const typename F::From* from;
    std::int64_t count;
    explicit Journey(const KernelLaunch& launch)
        : to(*static_cast<typename F::To**>(launch.arguments[0])),
          from(*static_cast<const typename F::From**>(launch.arguments[1])),
          count(*static_cast<const std::int64_t*>(launch.arguments[2])) {}
  };
  machine.declare_kernel(conversion, [](const KernelLaunch& launch) {
    const Journey journey(launch);
    const auto count = static_cast<std::size_t>(journey.count);
    return std::vector<KernelUse>{{journey.from, count * sizeof(typename F::From), false},
                                  {journey.to, count * sizeof(typename F::To), true}};
  });
  machine.on_kernel(conversion, [](const KernelLaunch& launch) -> std::function<void()> {
    return [journey = Journey(launch), f = *static_cast<const F*>(launch.arguments[3])] {
      for (std::int64_t i = 0; i < journey.count; ++i) journey.to[i] = f(journey.from[i]);
    };
  });
}

/// Lets all kernels that NCCL's engine launches happen on the simulated devices, and tells the machine what they read
/// and write.
inline void simulate_reduction_kernels(RecordingCuda& machine) {
  simulate_slice_kernels(machine);
  simulate_journeys<cuda_kernels::Packed<Bf16>>(machine, "Packed<tutti::Bf16>");
  simulate_journeys<cuda_kernels::Packed<F16>>(machine, "Packed<tutti::F16>");
  simulate_journeys<cuda_kernels::Unpacked<Bf16>>(machine, "Unpacked<tutti::Bf16>");
  simulate_journeys<cuda_kernels::Unpacked<F16>>(machine, "Unpacked<tutti::F16>");
}

}  // namespace tutti::testing
