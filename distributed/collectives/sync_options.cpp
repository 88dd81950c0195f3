// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/sync_options.h>

namespace tutti {

std::string_view to_string(GradientReduction reduction) noexcept {
  switch (reduction) {
    case GradientReduction::sum: return "sum";
    case GradientReduction::mean: return "mean";
    case GradientReduction::weighted_mean: break;
  }
  return "weighted_mean";
}

std::string_view to_string(Absent absent) noexcept { return absent == Absent::subset ? "subset" : "zero"; }

std::string_view to_string(BufferPolicy policy) noexcept {
  switch (policy) {
    case BufferPolicy::mean: return "mean";
    case BufferPolicy::synchronised: return "synchronised";
    case BufferPolicy::main: break;
  }
  return "main";
}

std::string_view to_string(Overlap overlap) noexcept {
  switch (overlap) {
    case Overlap::double_buffered: return "double_buffered";
    case Overlap::in_backward: return "in_backward";
    case Overlap::immediate: break;
  }
  return "immediate";
}

std::string_view to_string(Sharding sharding) noexcept {
  switch (sharding) {
    case Sharding::optimizer_state: return "optimizer_state";
    case Sharding::gradients: return "gradients";
    case Sharding::none: break;
  }
  return "none";
}

std::string_view to_string(GradientWire wire) noexcept {
  switch (wire) {
    case GradientWire::bf16: return "bf16";
    case GradientWire::f16: return "f16";
    case GradientWire::native: break;
  }
  return "native";
}

}  // namespace tutti
