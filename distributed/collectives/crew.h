// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/backend/stream.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

class CollectiveTask;

/// The threads that work on an engine's tasks beside what else they do: each device's thread comes by when it has
/// posted something, and when it would wait. Without anything to do, as it is here, for an engine that works by itself.
/// Thread-safe. Lives as long as its engine.
class Crew {
 public:
  virtual ~Crew() = default;

  /// Lends the calling thread, which drives the device and has other work to do, to this device's share of what is
  /// ready; never blocks.
  virtual void help(Device) {}
  /// Lends the calling thread, as `help` does, where it would otherwise wait: it takes over what others have not begun.
  virtual void help_all(Device) {}
  /// Notices what has finished on devices, for whoever asks what has. Blocks only where a device has failed, until the
  /// others are done. Default: nothing, for an engine that notices by itself.
  virtual void notice_finished() {}
  /// Queues work of this process alone, for an engine that makes a collective of it and of others': `chunks` pieces,
  /// each done once, at the same time as others, when `ready` is past. `helping`: devices whose threads come for a
  /// share. Called as the engine's requests are. Default: throws SyncError.
  virtual std::shared_ptr<CollectiveTask> run(std::vector<Event> ready, std::span<const Device> helping,
                                              std::int64_t chunks, std::function<void(std::int64_t chunk)> work);
};

}  // namespace tutti
