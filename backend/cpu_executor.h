// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <functional>

namespace tutti {

/// Runs the parts of a loop on threads of the program: calls `part(i)` for i = 0 ... parts - 1, each once, in any
/// order, on any threads, one after the other or at a time, and returns when all of these calls have. `part` throws
/// nothing.
using CpuExecutor = std::function<void(int parts, const std::function<void(int)>& part)>;

/// Has the loops of one CPU device run by the program's executor, in up to `threads` parts, in place of threads of the
/// library; null: by `threads` of these again. `set_cpu_threads` changes the number alone. Results depend on neither,
/// bit for bit. Loops that are not worth more than one thread, and all where `threads` is 1, run on the calling thread.
/// Throws `DeviceError` for other devices and numbers below 1 or above 1024; `Error` within a loop, and in a child
/// (`fork`) of a process that has used a CPU device. Waits for a loop in progress.
///
/// The executor is called by whatever thread runs the device's work, one at a time for each device: the program's, a
/// device's thread of a group, a stream's. It runs parts on the calling thread, too, where all others may be busy with
/// work that uses the device. What it runs besides, while it waits, may use the device: such loops, as those within a
/// part, are run where they are, and `set_cpu_threads` does nothing there; it does not end the process, which waits for
/// the loop. In a child (`fork`) it is not called.
///
/// What it throws comes out of the operation, as does `Error`, which names the device, where a part was not called, was
/// called twice, or still ran when it returned. No part runs then; a copy of `part` that is called later does nothing,
/// but a reference to it does not outlive the call. As after any error in it, the operation's output holds anything.
///
/// It must work until the process ends, or another takes its place: a program that ends its threads before says
/// `set_cpu_executor(device, 1, nullptr)` first.
void set_cpu_executor(Device, int threads, CpuExecutor);

}  // namespace tutti
