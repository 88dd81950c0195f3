// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/mpi/mpi_runtime.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace tutti {

/// The communicator of one group of processes, which MPI keeps until its end: the last messages may come later. MPI's
/// calls are made one at a time in the whole process. An error makes all later calls fail, and `error` tells the first.
/// Thread-safe; each request belongs to whoever has begun it.
class MpiChannel {
 public:
  using Clock = MpiRuntime::Clock;

  /// Makes a communicator of all processes, which all call, and which have to be as many as `processes`. MPI runs.
  /// Throws SyncError for an error of MPI or after the deadline, and what `look_around` throws.
  MpiChannel(MpiRuntime&, std::size_t processes, Clock::time_point deadline, const std::function<void()>& look_around);
  MpiChannel(const MpiChannel&) = delete;
  MpiChannel& operator=(const MpiChannel&) = delete;

  int rank() const noexcept { return rank_; }  ///< MPI's, of this process
  MpiRuntime& runtime() noexcept { return runtime_; }

  // False: MPI has failed.
  bool send(int rank, int tag, std::span<const std::byte>, MpiRequest&) noexcept;
  bool receive(int rank, int tag, std::span<std::byte>, MpiRequest&) noexcept;
  /// Looks how far those are that are active; test_some: all of them in one call.
  bool test(MpiRequest&) noexcept;
  bool test_some(std::span<MpiRequest* const>) noexcept;
  /// Ends a receive for which nothing has come; returns when its memory is not used any more. False: it is.
  bool cancel(MpiRequest&) noexcept;
  void abort() noexcept;  ///< ends the job

  /// Waits for requests. Throws as the constructor does; `what`: "..." for errors.
  void wait(std::span<MpiRequest>, Clock::time_point deadline, const std::function<void()>& look_around,
            const char* what);
  std::string error() const;  ///< text of what MPI has said; "" for nothing

 private:
  bool check(int error) noexcept;  // is called with the calls' mutex

  /// Counted as a group as long as the channel lives.
  struct CountedGroup {
    explicit CountedGroup(MpiRuntime& of) : runtime(of) { runtime.begin_group(); }
    ~CountedGroup() { runtime.end_group(); }
    CountedGroup(const CountedGroup&) = delete;
    CountedGroup& operator=(const CountedGroup&) = delete;
    MpiRuntime& runtime;
  };

  const CountedGroup group_;
  MpiRuntime& runtime_;
  std::shared_ptr<MpiHandle> communicator_;  // kept by the runtime, too, as MPI may still write to it
  int rank_ = 0;
  int error_ = 0;  // guarded by the calls' mutex
};

}  // namespace tutti
