// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti {

class GradientSync;

/// Texts of those devices of a group that give one, in the order of the devices' numbers over all processes. A
/// collective: each device's thread calls it at the same place, with the same `purpose`, which errors tell. Throws the
/// group's SyncError.
std::vector<std::string> gather_texts(GradientSync&, Device, const std::optional<std::string>& own,
                                      const std::string& purpose);

/// Takes part in gather_texts for a device that gives no text and wants none: nothing is copied there.
void attend_gathering(GradientSync&, Device, const std::string& purpose);

/// A text of each process, by rank. Called by one thread of each process while no other drives its devices. Throws the
/// group's SyncError.
std::vector<std::string> gather_from_processes(GradientSync&, const std::string& own, const std::string& purpose);

/// Returns when all devices have what they gathered last: called where each is to throw because of that, as the first
/// to do so would else end the others' gathering. A collective, as gather_texts.
void await_gathered(GradientSync&, Device) noexcept;
/// The same, called as gather_from_processes is.
void await_gathered_from_processes(GradientSync&) noexcept;

}  // namespace tutti
