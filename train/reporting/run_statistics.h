// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/distributed/sync_summary.h>
#include <tutti/train/reporting/writers/event_storage.h>

#include <span>
#include <string>

namespace tutti {

/// Examples (tokens, steps) a second. Devices work side by side: merging them adds what they did, and takes the longest
/// time.
class Throughput {
 public:
  void add(double count, double seconds);
  void merge(const Throughput&);
  double value() const noexcept { return seconds_ > 0.0 ? count_ / seconds_ : 0.0; }  ///< 0 before the first second
  void reset() { *this = {}; }
  std::string to_text() const;
  void load_text(const std::string&);  ///< throws DataError; nothing is changed then

 private:
  double count_ = 0.0;
  double seconds_ = 0.0;
};

/// Puts what the devices' memory pools hand out, in bytes, not smoothed: "memory/cpu:0/in_use", ".../reserved",
/// ".../peak", and as "memory" the greatest peak among them. Any thread of the storage's; does not wait for devices.
void put_memory(EventStorage&, std::span<const Device>);

/// Puts what a report of synchronisation amounts to, in seconds, not smoothed (they are medians): "sync/step_time",
/// "sync/skew", "sync/lateness/cpu:0" and so on, "sync/hidden" (a share) and, where it is known, "sync/exposed".
/// Nothing for a summary of no steps.
void put_sync(EventStorage&, const SyncReport&);

}  // namespace tutti
