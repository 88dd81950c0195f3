// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tutti {

/// `kind`:0 to `kind`:count-1; CPU devices share their loops among this many threads. Throws Error for a kind that is
/// unknown and for fewer than one device.
std::vector<Device> devices_of(const std::string& kind, std::int64_t count, int threads_per_device = 1);

/// Calls `work(d)` for d = 0 ... count - 1, each on a thread of its own, and waits for all. Rethrows the first error
/// that is no echo (SyncError) of another device's.
void on_every_device(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace tutti
