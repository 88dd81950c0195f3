// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/cache_line_gap.h>
#include <tutti/distributed/collectives/engine_task.h>
#include <tutti/distributed/engines/local/short_array.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace tutti {

/// Stages one after the other, each in chunks that are claimed by atomic counter. Each device has an equal share of a
/// stage's chunks (fewer chunks than devices are for whoever comes first), claimed by its own thread from the front and
/// by others from the back: whoever completes a reduction is not held up by all of it, while the others compute on.
/// Whoever ends the last chunk of a stage opens the next; nobody waits inside a stage. A stage may have a gate: until
/// that is open nobody claims its chunks. An exception in a chunk is the task's error, and the stages after it are
/// passed over. Thread-safe.
class StagedTask : public EngineTask {
 public:
  void help(Device) override;
  void join(Device) override;
  void wait_past(std::uint32_t progress) noexcept override;

  bool inputs_ready() const;
  bool ready() const;                     ///< inputs are there and the current stage's gate is open
  void wait_for_inputs() const noexcept;  ///< blocks; an input's error becomes the task's when its chunks run
  // These two look at that device's share, if one is given, else at all chunks.
  bool has_unclaimed_chunks(std::optional<Device>) const;  ///< now
  bool may_have_more(std::optional<Device>) const;         ///< now or in a later stage

  // These return when what may be claimed of the current stage is claimed, or all is done. Inputs must be ready.
  void run(Device);                     ///< the device's share
  void run_all(std::optional<Device>);  ///< all that is left; first the device's share, if there is one of it

 protected:
  /// The time when a finished task's chunks are dropped, and with them the arrays that they hold: before it counts as
  /// finished, so that whoever waits for it finds the memory free; or right after, where the memory is others' too.
  enum class Drop : std::uint8_t { before_finish, after_finish };

  /// `inputs`: before them no chunk may run; unrecorded ones count as past. `devices`: none: all is for whoever comes.
  /// `chunks`: of each stage, at least 1.
  StagedTask(std::vector<Event> inputs, std::span<const Device> devices, std::span<const std::int64_t> chunks, Drop);

  virtual void run_chunk(std::size_t stage, std::int64_t chunk) = 0;
  virtual void drop_chunks() noexcept = 0;  ///< reports keep finished tasks for long

  // Gates of a task that waits for others between its stages. These may be called late, for stages that have ended.
  virtual bool gate_open(std::size_t) const { return true; }  ///< stays true once it is
  virtual void wait_for_gate(std::size_t) noexcept {}         ///< blocks until it is open
  /// Called by the thread that ended the stage's last chunk, before the next stage or the end. `failure`: null unless
  /// the stage failed.
  virtual void stage_ended(std::size_t, const std::exception_ptr&) noexcept {}

 private:
  struct Share {
    CacheLineGap before;
    // Chunks claimed from the front in the low half, from the back in the high half.
    std::atomic<std::uint64_t> claimed{0};
    std::int64_t begin = 0;
    std::int64_t end = 0;

    bool has_unclaimed() const;
    std::int64_t claim(bool from_front);  // -1: none is left
  };
  struct Stage {
    std::int64_t chunks = 0;
    ShortArray<Share, 2> shares;  // indexed as devices_; a single one is everybody's
    Share& share_of(std::size_t place) { return shares[shares.size() == 1 ? 0 : place]; }
    const Share& share_of(std::size_t place) const { return shares[shares.size() == 1 ? 0 : place]; }
  };
  std::size_t place_of(Device) const;  // devices_.size(): it has no share
  bool has_unclaimed(const Stage&, std::optional<std::size_t> place) const;
  template <class Claim> void run_claimed(Claim claim);
  void try_chunk(std::size_t stage, std::int64_t chunk) noexcept;
  void end_stage(std::uint32_t stage);
  void end(std::exception_ptr);

  // Together what whoever has worked writes, together what all read, and apart what each device claims: the last core
  // to have written a line has it, and each line that another one needs costs as much as summing some thousand
  // elements.
  std::atomic<std::int64_t> remaining_{0};  // chunks of the current stage that are not done
  [[maybe_unused]] CacheLineGap gap_;
  std::vector<Event> inputs_;
  ShortArray<Device, 4> devices_;
  Drop drop_;
  ShortArray<Stage, 1> stages_;
  std::mutex failure_mutex_;  // several helpers may fail at once
  std::exception_ptr failure_;
};

/// A stage of a task made of functions.
struct WorkStage {
  std::int64_t chunks = 0;  ///< their number, at least 1
  std::function<void(std::int64_t chunk)> run;
};

class FunctionTask final : public StagedTask {
 public:
  FunctionTask(std::vector<Event> inputs, std::span<const Device> devices, std::vector<WorkStage>);

 private:
  void run_chunk(std::size_t stage, std::int64_t chunk) override { stages_[stage].run(chunk); }
  void drop_chunks() noexcept override { stages_.clear(); }

  std::vector<WorkStage> stages_;
};

}  // namespace tutti
