// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/device.h>
#include <tutti/distributed/engines/nccl/nccl_version.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace tutti {

/// Position of a process's devices in a group of several processes.
struct NcclMembership {
  ncclUniqueId id;                  ///< made by one of the processes, by `make_nccl_id`
  int world = 1;                    ///< devices in all processes
  int first_rank = 0;               ///< rank of this process's first device; its others follow
  std::function<void()> look = {};  ///< called while NCCL is waited for; what it throws ends that
};

/// Makes the id for one group; it has to reach all its processes. Throws SyncError when NCCL cannot make one.
ncclUniqueId make_nccl_id(Device);

/// One NCCL communicator for each device of a group in this process; ranks follow the list's order. Created and used
/// without blocking inside NCCL: every wait has a deadline, after which all is aborted. Used by one thread at a time.
///
/// After a failure `stop` ends what runs, and `shrink` makes of what is left a group of the devices that go on.
class NcclGroup {
 public:
  /// The devices of one process alone.
  /// Throws SyncError when NCCL cannot connect the devices within the deadline, or is older than 2.18.
  NcclGroup(std::vector<Device>, std::chrono::milliseconds deadline);
  /// Joins the devices with those of other processes, which have until the deadline to come.
  NcclGroup(std::vector<Device>, const NcclMembership&, std::chrono::milliseconds deadline);
  /// Ends NCCL's part in order, for which it has until the deadline; aborts it after a failure, and then.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  const std::vector<Device>& devices() const noexcept { return devices_; }
  std::size_t size() const noexcept { return devices_.size(); }  ///< devices of this process
  std::size_t world() const noexcept { return world_; }          ///< devices of all processes
  std::size_t first_rank() const noexcept { return first_rank_; }
  const NcclVersion& version() const noexcept { return version_; }
  int rank_of(Device) const;  ///< its place among this process's devices
  ncclComm_t communicator(std::size_t place) const noexcept { return communicators_[place]; }

  /// Calls `submit()`, whose NCCL calls of all ranks belong together, and returns when NCCL has taken them all.
  /// An exception leaves the group broken: its collectives may have begun on some ranks.
  template <class F> void submit(std::string_view operation, F&& submit) {
    const std::lock_guard lock(cuda_runtime::launch_or_allocate());
    broken_ = true;
    call_together(operation, submit);
    wait_until_taken(operation);
    broken_ = false;
  }
  bool broken() const noexcept { return broken_; }

  /// Ends what runs, for good: nothing can be submitted any more. Communicators are revoked where NCCL can, and wait
  /// for `shrink`; else, and where that fails, they are aborted.
  void stop() noexcept;
  bool stopped() const noexcept { return stopped_; }
  /// True if these devices are some of this group's, whose communicators are still there, and NCCL has ncclCommShrink.
  bool can_shrink_to(const std::vector<Device>&) const;
  /// A group of these devices alone, which need not connect anew; nothing may be running. This group's communicators
  /// are aborted, whatever happens. Throws SyncError when NCCL cannot make it within the deadline.
  std::unique_ptr<NcclGroup> shrink(const std::vector<Device>&);

  /// Throws SyncError if NCCL has noticed a failure of what runs.
  void check_running(std::string_view operation) const;

 private:
  NcclGroup(std::vector<Device>, std::chrono::milliseconds deadline, NcclVersion);
  /// Makes calls that connect, as `submit` makes others, but lets others take memory during the wait: it may depend on
  /// them when the ranks of another process come, and nothing has been launched that waits for another device.
  template <class F> void connect(F&& calls) {
    broken_ = true;
    {
      const std::lock_guard lock(cuda_runtime::launch_or_allocate());
      call_together("nccl", calls);
    }
    wait_until_taken("nccl");
    broken_ = false;
  }
  template <class F> void call_together(std::string_view operation, F&& calls) {
    begin(operation);
    try {
      calls();
    } catch (...) {
      (void)ncclGroupEnd();
      throw;
    }
    end(operation);
  }
  void begin(std::string_view operation);
  void end(std::string_view operation);
  void wait_until_taken(std::string_view operation) const;
  class Pause;
  bool quiet(std::size_t place, const Pause&) const noexcept;
  void finish() noexcept;
  void abort(std::size_t place) noexcept;
  void abort() noexcept;

  std::vector<Device> devices_;
  std::chrono::milliseconds deadline_;
  NcclVersion version_;
  std::size_t world_;
  std::size_t first_rank_;
  std::function<void()> look_;
  std::vector<ncclComm_t> communicators_;  // indexed by place among this process's devices; null: aborted
  bool broken_ = false;
  bool stopped_ = false;
};

}  // namespace tutti
