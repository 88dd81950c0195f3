// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

class GradientSync;

/// `kind`:0 to `kind`:count-1; CPU devices share their loops among this many threads, or as many as they have (see
/// set_cpu_threads). Throws Error for a kind that is unknown and for fewer than one device.
std::vector<Device> devices_of(const std::string& kind, std::int64_t count,
                               std::optional<int> threads_per_device = std::nullopt);

/// Devices of one kind, for people to read: "2 cpu devices, 1 thread each, on 8 cores", "1 cuda device".
std::string devices_text(const std::vector<Device>&);

/// Calls `work(d)` for d = 0 ... count - 1, each on a thread of its own, and waits for all. Rethrows the first error
/// that is no echo (SyncError) of another device's. Throws Error, before any begins, if the system has not so many
/// threads.
void on_every_device(std::size_t count, const std::function<void(std::size_t)>& work);

/// Calls `work(d)` for each of the group's devices, the d-th being sync.devices()[d], as the function above. An error
/// of `work` fails the group, so that nobody waits for a device that has thrown between two steps.
void on_every_device(GradientSync& sync, const std::function<void(std::size_t)>& work);

}  // namespace tutti
