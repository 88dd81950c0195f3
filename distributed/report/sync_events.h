// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/report/sync_text.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// One thing that the server was told or decided. Small and without text: one is kept for every message.
struct SyncEvent {
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::uint32_t kNone = 0xffffffff;

  enum class Kind : std::uint8_t {
    registered,  ///< a device's backward began
    submitted,   ///< a device's gradient is final
    launched,    ///< a reduction was handed to the engine
    finished,    ///< a reduction was done
    synced,      ///< a device's backward ended
    released,    ///< the group committed the generation
    joined,      ///< a device may step
    device_failed,
    failed,  ///< the group
    left,
    rejoining,  ///< a device asks for the next group
    formed,     ///< the next group: `generation` holds its number
    digested,   ///< a device posted what its replica holds
    compared,   ///< the replicas were found equal
    closed,
  };

  Time at;
  std::int64_t generation = 0;
  std::uint32_t device = kNone;     ///< index in the group
  std::uint32_t parameter = kNone;  ///< id
  Kind kind = Kind::registered;
};

/// The last events, in a ring whose memory is taken once. Not thread-safe: guarded by its owner's lock.
class SyncEvents {
 public:
  explicit SyncEvents(std::size_t capacity) : ring_(capacity) {}

  void add(const SyncEvent& event) noexcept {
    if (ring_.empty()) return;
    ring_[next_] = event;
    if (++next_ == ring_.size()) next_ = 0;
    ++added_;
  }
  std::vector<SyncEvent> last() const;  ///< oldest first

 private:
  std::vector<SyncEvent> ring_;
  std::size_t next_ = 0;
  std::uint64_t added_ = 0;
};

/// A line for each event: time since `start`, generation, what, device, parameter.
std::string events_text(std::span<const SyncEvent>, SyncEvent::Time start, const GroupMembers&,
                        const std::vector<SyncParameter>&);

/// Appends text to the file. False if it could not be written.
bool append_to_file(const std::string& path, const std::string& text);

}  // namespace tutti
