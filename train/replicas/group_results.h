// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/train/hook.h>

#include <exception>
#include <optional>
#include <string>

namespace tutti {

class GradientSync;

/// Metrics as text, a line for each, and back, bit by bit.
std::string text_of_metrics(const Metrics&);
Metrics metrics_of(const std::string& text);

/// The metrics of the group's first device, which has some; the others get them, too. A collective: each device's
/// thread calls it at the same place. Throws the group's SyncError.
Metrics first_of_devices(GradientSync&, Device, const std::optional<Metrics>& own);

/// The error by which a device ends a call that others have made, too: its own, else a SyncError with that of any
/// other, null if there is none, or the group's. A collective, as first_of_devices. `name`: the device's, for the
/// others.
std::exception_ptr error_of_any(GradientSync&, Device, const std::string& name, std::exception_ptr own) noexcept;

}  // namespace tutti
