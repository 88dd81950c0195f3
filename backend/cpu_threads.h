// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

namespace tutti {

/// Threads that share the loops of one CPU device, the calling thread included. One by default, since CPU devices are
/// many; TUTTI_CPU_THREADS sets another default. Results do not depend on it. Throws `DeviceError` for other devices
/// and numbers below 1, and `Error` if the system has not so many threads. Waits for a loop in progress.
///
/// A child process (`fork`) of one that has used a CPU device has none of its threads: there loops run on the calling
/// thread alone, and `set_cpu_threads` and asynchronous streams (TUTTI_CPU_ASYNC=1) throw. Fork before devices are
/// used.
void set_cpu_threads(Device, int threads);
int cpu_threads(Device);

}  // namespace tutti
