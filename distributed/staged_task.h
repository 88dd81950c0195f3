// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace tutti {

/// Independent chunks of work, each run once, by any thread.
struct WorkStage {
  std::int64_t chunks = 0;  ///< at least 1
  std::function<void(std::int64_t chunk)> run;
};

/// Stages one after the other, each in chunks that are claimed by atomic counter by whoever has time. Whoever ends the
/// last chunk of a stage opens the next one and goes on with it, so that a task whose inputs are ready is always being
/// run by somebody once it was begun, and nobody waits inside a stage. An exception in a chunk is the task's error, and
/// the stages after it are passed over. Thread-safe.
class StagedTask : public CollectiveTask {
 public:
  /// `inputs`: before them no chunk may run; unrecorded ones count as past. The stages' functions hold the arrays and
  /// are dropped when the last chunk is done.
  StagedTask(std::vector<Event> inputs, std::vector<WorkStage> stages);

  bool ready() const;
  void wait_for_inputs() const noexcept;  ///< blocks; an input's error becomes the task's when its chunks run
  bool has_unclaimed_chunks() const;
  bool may_have_more() const;  ///< false: every chunk of every stage is claimed

  /// Claims and runs chunks until none is left or the rest of a stage is being run by others. Inputs must be ready.
  void run();
  void skip();  ///< for measurements: ends without touching anything

 private:
  struct Stage {
    std::int64_t chunks = 0;
    std::function<void(std::int64_t)> run;
    std::atomic<std::uint64_t> claimed{0};  // from the front in the low half, from the back in the high half
    std::atomic<std::int64_t> remaining{0};
    bool has_unclaimed() const;
    std::int64_t claim(bool forwards);  // -1: none is left
  };
  void run_chunk(Stage&, std::int64_t chunk) noexcept;
  void end_stage(std::uint32_t stage);

  std::vector<Event> inputs_;
  std::vector<Stage> stages_;
  std::atomic<std::uint32_t> runners_{0};
  std::mutex failure_mutex_;  // several helpers may fail at once
  std::exception_ptr failure_;
};

}  // namespace tutti
