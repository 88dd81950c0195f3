// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/slices.h>
#include <tutti/backend/formulas/slice_formulas.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::testing {

struct SliceLaunch {
  cuda_kernels::SliceTable table;
  std::int64_t count;

  explicit SliceLaunch(const KernelLaunch& launch)
      : table(*static_cast<const cuda_kernels::SliceTable*>(launch.arguments[0])),
        count(*static_cast<const std::int64_t*>(launch.arguments[1])) {}

  std::vector<KernelUse> uses(std::size_t element) const {
    std::vector<KernelUse> found;
    const auto bytes = static_cast<std::size_t>(count) * element;
    for (std::int32_t s = 0; s < table.sources; ++s) found.push_back({table.source[s], bytes, false});
    for (std::int32_t t = 0; t < table.targets; ++t) found.push_back({table.target[t], bytes, true});
    return found;
  }
};

/// `formula`: how its type is written in kernels' names.
template <class Formula> void simulate_slices(RecordingCuda& machine, std::string_view formula) {
  constexpr std::size_t kElement = sizeof(typename Formula::Value);
  machine.declare_kernel(formula, [](const KernelLaunch& launch) { return SliceLaunch(launch).uses(kElement); });
  machine.on_kernel(formula, [](const KernelLaunch& launch) -> std::function<void()> {
    const SliceLaunch slices(launch);
    if (launch.name.find("combine_lanes") != std::string::npos)
      for (const KernelUse& use : slices.uses(kElement)) CHECK(reinterpret_cast<std::uintptr_t>(use.data) % 16 == 0);
    return [slices, formula = *static_cast<const Formula*>(launch.arguments[2])] {
      for (std::int64_t i = 0; i < slices.count; ++i) cuda_kernels::combine_element(slices.table, i, formula);
    };
  });
}

template <class T> void simulate_slices_of(RecordingCuda& machine, const std::string& type) {
  simulate_slices<PlainSum<T>>(machine, "PlainSum<" + type + ",");
  simulate_slices<Largest<T>>(machine, "Largest<" + type);
  simulate_slices<Smallest<T>>(machine, "Smallest<" + type);
}

/// Lets the kernels of backend/cuda/kernels/slices.cu happen on the simulated devices, by the function that they share
/// with this, and tells the machine what they read and write.
inline void simulate_slice_kernels(RecordingCuda& machine) {
  simulate_slices_of<float>(machine, "float");
  simulate_slices_of<double>(machine, "double");
  simulate_slices_of<BFloat16>(machine, "tutti::ShortFloat<tutti::Bf16>");
  simulate_slices_of<Float16>(machine, "tutti::ShortFloat<tutti::F16>");
  simulate_slices_of<std::int32_t>(machine, "int");
  simulate_slices_of<std::int64_t>(machine, "long");
  simulate_slices<TravelledSum<Bf16>>(machine, "TravelledSum<tutti::Bf16");
  simulate_slices<TravelledSum<F16>>(machine, "TravelledSum<tutti::F16");
}

}  // namespace tutti::testing
