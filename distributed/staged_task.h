// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

namespace tutti {

/// Independent chunks of work, each run once, by any thread.
struct WorkStage {
  std::int64_t chunks = 0;  ///< at least 1
  std::function<void(std::int64_t chunk)> run;
};

/// Stages one after the other, each in chunks that are claimed by atomic counter. Each device has an equal share of a
/// stage's chunks (fewer chunks than devices are for whoever comes first), claimed by its own thread from the front and
/// by others from the back: whoever completes a reduction is not held up by all of it, while the others compute on.
/// Whoever ends the last chunk of a stage opens the next; nobody waits inside a stage. An exception in a chunk is the
/// task's error, and the stages after it are passed over. Thread-safe.
class StagedTask : public CollectiveTask {
 public:
  /// `inputs`: before them no chunk may run; unrecorded ones count as past. The stages' functions hold the arrays and
  /// are dropped when the last chunk is done.
  StagedTask(std::vector<Event> inputs, std::vector<Device> devices, std::vector<WorkStage> stages);

  bool ready() const;
  void wait_for_inputs() const noexcept;  ///< blocks; an input's error becomes the task's when its chunks run
  // Of that device's share, if one is given, else of all.
  bool has_unclaimed_chunks(std::optional<Device>) const;  ///< now
  bool may_have_more(std::optional<Device>) const;         ///< now or in a later stage

  // These return when what may be claimed of the current stage is claimed, or all is done. Inputs must be ready.
  void run(Device);                     ///< the device's share
  void run_all(std::optional<Device>);  ///< all that is left; first the device's share, if there is one of it
  void skip();                          ///< for measurements: ends without touching anything

 private:
  struct alignas(64) Share {
    // Chunks claimed from the front in the low half, from the back in the high half.
    std::atomic<std::uint64_t> claimed{0};
    std::int64_t begin = 0;
    std::int64_t end = 0;

    bool has_unclaimed() const;
    std::int64_t claim(bool from_front);  // -1: none is left
  };
  struct Stage {
    std::function<void(std::int64_t)> run;
    std::vector<Share> shares;  // by place in devices_; a single one is everybody's
    Share& share_of(std::size_t place) { return shares[shares.size() == 1 ? 0 : place]; }
    const Share& share_of(std::size_t place) const { return shares[shares.size() == 1 ? 0 : place]; }
    std::atomic<std::int64_t> remaining{0};
  };
  std::size_t place_of(Device) const;  // devices_.size(): it has no share
  bool has_unclaimed(const Stage&, std::optional<std::size_t> place) const;
  template <class Claim> void run_claimed(Claim claim);
  void run_chunk(Stage&, std::int64_t chunk) noexcept;
  void end_stage(std::uint32_t stage);

  alignas(64) std::vector<Event> inputs_;
  std::vector<Device> devices_;
  std::vector<Stage> stages_;
  std::mutex failure_mutex_;  // several helpers may fail at once
  std::exception_ptr failure_;
};

}  // namespace tutti
