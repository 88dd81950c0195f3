// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <cstddef>
#include <vector>

namespace tutti {

// The devices that a run's tests work on. TUTTI_TEST_DEVICE names their kind: cpu (the default), cuda, or foreign, a
// kind from outside the tree, whose kernels are the CPU's and whose arrays no other device may touch.
//
// Test cases about CPU devices alone, or about no device, are in the test suite "cpu": only runs on cpu have them.

Device test_device(std::size_t index = 0);
std::vector<Device> test_devices(std::size_t count);
inline bool tests_run_on_cpu() { return test_device().kind == DeviceKind::cpu; }

/// A text that names cpu:0, cpu:1, ... as it reads with this run's devices. Lives as long as the process.
const char* as_tested(const char* text);
/// What a CPU device tells of an index out of range, as test_device() tells it: a CUDA device finds it later, and names
/// itself behind the operation in place of the element (" at [1]") and of what is ignored. Lives as long as the
/// process.
const char* index_error(const char* text);

}  // namespace tutti
