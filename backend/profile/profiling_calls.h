// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/profile.h>

#include <tutti/backend/backend.h>

#include <chrono>
#include <memory>

namespace tutti {

/// Time by the clock of profiles.
inline std::chrono::nanoseconds steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

/// Makes the backend that a profiled thread sees: it passes every call on to the registered one, waits for it, and adds
/// it to the run. `within`: true while a call runs, whose own calls are a part of it; one for all kinds of a thread.
std::unique_ptr<Backend> profiling_calls(Backend& registered, ProfiledRun&, bool& within);

}  // namespace tutti
