// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/gradient_observer.h>
#include <tutti/distributed/layout/gradient_arena.h>
#include <tutti/distributed/ledger/sync_ledger.h>

#include <optional>
#include <string>

namespace tutti {

/// Fault of a gradient that a device has submitted.
struct GradientMisfit {
  Fault::Kind kind;
  std::string detail;  ///< text for `fault_text`
};

/// Compares a gradient that does not lie in its place of the arena with its parameter. `arena` may be null: then it may
/// lie anywhere. Indices of rows are looked at where they are there already; else the reduction finds out.
std::optional<GradientMisfit> misfit_of(const GradientRef&, ParameterId, const SyncParameter&,
                                        const GradientArena* arena, Device);

}  // namespace tutti
