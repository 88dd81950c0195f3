// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/launchers/gradient_check.h>

#include <tutti/distributed/collectives/sparse_reduction.h>

#include <fmt/format.h>

namespace tutti {

namespace {

// Where the contents are there. Else the reduction finds out; so it does what failed on the stream that made them.
std::optional<std::int64_t> known_index_out_of_range(const GradientRef& gradient, const SyncParameter& parameter) {
  try {
    if (gradient.ready.recorded() && !gradient.ready.ready()) return std::nullopt;
    if (gradient.ready.recorded()) gradient.ready.synchronize();
  } catch (...) {
    return std::nullopt;
  }
  for (const SparseGradient& part : gradient.rows)
    if (const auto index = index_out_of_range(part, parameter)) return index;
  return std::nullopt;
}

std::optional<std::string> fault_of_rows(const GradientRef& gradient, const SyncParameter& parameter, Device device) {
  if (!parameter.sparse) return "a sparse gradient in place of a dense one";
  if (gradient.gradient.defined())
    return fmt::format("a dense gradient {} in place of a sparse one", to_string(gradient.gradient.shape()));
  for (const SparseGradient& part : gradient.rows)
    if (auto misfit = misfit_of(part, parameter, device)) return misfit;
  if (device.kind != DeviceKind::cpu) return std::nullopt;  // what is in it is the device's to read
  if (const auto index = known_index_out_of_range(gradient, parameter))
    return fmt::format("index {} of {} rows", *index, parameter.shape[0]);
  return std::nullopt;
}

}  // namespace

std::optional<GradientMisfit> misfit_of(const GradientRef& submitted, ParameterId id, const SyncParameter& parameter,
                                        const GradientArena* arena, Device device) {
  using Kind = Fault::Kind;
  if (parameter.sparse || !submitted.rows.empty()) {
    auto fault = fault_of_rows(submitted, parameter, device);
    return fault ? std::optional(GradientMisfit{Kind::wrong_rows, std::move(*fault)}) : std::nullopt;
  }
  const Array& gradient = submitted.gradient;
  if (gradient.shape() != parameter.shape)
    return GradientMisfit{Kind::wrong_shape, fmt::format("shape {} in place of {}", to_string(gradient.shape()),
                                                         to_string(parameter.shape))};
  if (gradient.dtype() != parameter.dtype)
    return GradientMisfit{Kind::wrong_dtype, fmt::format("dtype {} in place of {}", to_string(gradient.dtype()),
                                                         to_string(parameter.dtype))};
  if (arena != nullptr && !arena->is_place_of(id, gradient))
    return GradientMisfit{Kind::wrong_place, fmt::format("parameter \"{}\"", parameter.name)};
  return std::nullopt;
}

}  // namespace tutti
