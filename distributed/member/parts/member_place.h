// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/distributed/member/parts/device_threads.h>
#include <tutti/distributed/sync_server.h>

#include <string>

namespace tutti {

/// A device's place in its group: what the parts of its side need to speak to the server and to know the device's
/// thread. The group outlives it.
struct MemberPlace {
  DistributedSyncServer& server;
  DeviceThreads& threads;
  MemberIndex index;
  Device device;

  /// "cpu:0", or "rank 1 cpu:0" where there are several processes.
  std::string name() const { return server.members().name(index); }
  DeviceThread& thread() const noexcept { return threads[index]; }
  const SyncOptions& options() const noexcept { return server.options(); }
  bool double_buffered() const noexcept { return options().overlap == Overlap::double_buffered; }
  bool in_backward() const noexcept { return options().overlap == Overlap::in_backward; }
};

}  // namespace tutti
