// SPDX-License-Identifier: Apache-2.0
#pragma once

// Suites for extensions that are built outside of the library: whether a kind of device computes what the CPU does, and
// whether an engine reduces as a group relies on. They use no framework for tests: a program gives the faults to its
// own.

#include <tutti/backend/device.h>
#include <tutti/distributed/communicator.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti::testing {

/// Findings of a suite.
struct Conformance {
  std::int64_t checks = 0;            ///< comparisons that were made
  std::vector<std::string> faults;    ///< a line each, with the operation, its operands and what came out
  std::vector<std::string> left_out;  ///< parts that were not checked, a line each with the reason
};

/// Runs every kernel, its gradients and whole training steps on two devices with the same inputs, contiguous and in
/// other layouts, for every type (testing/device_comparison.h does it for an operation of one's own). Takes seconds on
/// CPUs. What a backend throws is a fault, but for what the reference refuses as well. Throws Error for two
/// devices that are one.
Conformance check_backend(Device tested, Device reference = cpu());

/// Makes the engine of a group of these devices.
using CommunicatorFactory = std::function<std::unique_ptr<Communicator>(std::span<const Device>)>;

/// Checks an engine within one process: sums of every type in the tree of the devices' numbers, absent devices,
/// subsets of the group, wires of 16 bits, what is ready later, requests in each other's wake, collectives, sparse
/// gradients if it reduces them, reductions switched off, and the group formed anew. For each number of devices from 1
/// on a new engine is made. `devices`: 2 or more, better 4, distinct; else throws Error. A call of the engine, or a
/// task, that has not ended within 30 seconds is a fault, and the last one that is found: its threads are left behind.
/// What the suite has no part for is told as left out, and sparse gradients of an engine that does not reduce them.
Conformance check_communicator(const CommunicatorFactory&, std::span<const Device> devices);

}  // namespace tutti::testing
