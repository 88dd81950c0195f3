// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/devices/device_facts.h>
#include <tutti/backend/process/process_mark.h>
#include <tutti/distributed/engines/network/mpi/mpi_calls.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tutti {

/// Reason why a process cannot use MPI.
enum class MpiTrouble : std::uint8_t {
  none,
  no_mpirun,    ///< mpirun did not start it
  no_plugin,    ///< the plugin is not there: the library was built without MPI
  bad_plugin,   ///< the plugin is there and cannot be loaded
  few_threads,  ///< the program has initialised MPI for fewer threads than MPI_THREAD_MULTIPLE
  finished,     ///< the program has finalised MPI
};

/// "mpirun did not start it", for errors.
std::string text_of(MpiTrouble);

/// Whether a launcher of MPI has started this process, as it says in the environment.
bool started_by_mpirun();

/// MPI as its plugin finds it, which is loaded then: its version, or why it cannot be used and where it was looked for.
/// Starts nothing.
ThirdParty mpi_library();

/// MPI in this process. The plugin is loaded when it is first asked for; MPI is initialised once, by a thread that also
/// finalises it when the program ends, unless the program has done that itself. Thread-safe.
class MpiRuntime {
 public:
  using Clock = std::chrono::steady_clock;

  static MpiRuntime& instance();
  /// Takes the calls of an MPI that runs; for tests.
  explicit MpiRuntime(MpiCalls& calls) : calls_(&calls), looked_(true) {}

  /// Says whether MPI can be used; looks for the plugin in the folder that TUTTI_PLUGINS names, else where it was
  /// installed. Waits for nobody.
  MpiTrouble trouble() noexcept;
  /// Returns when MPI runs; all processes call it. Only without trouble. Throws SyncError after the deadline, for an
  /// error of MPI, and for an MPI that allows too few threads; and what `look_around` throws, which is called now and
  /// then.
  void start(Clock::time_point deadline, const std::function<void()>& look_around);

  /// MPI's calls, made while the mutex is held.
  MpiCalls& calls() noexcept { return *calls_; }
  std::mutex& calls_mutex() noexcept { return calls_mutex_; }
  /// Keeps memory as long as MPI itself, which may still use it.
  void keep(std::shared_ptr<const void>);
  /// Says that a group has failed: other processes may not come to the end of MPI, so that this one waits for them no
  /// longer than 10 s when the program ends. MPI then ends the job.
  void set_failed() noexcept;
  /// Counts a group that uses MPI. MPI is not finalised before the last has ended. A new one is not a failed one.
  void begin_group() noexcept;
  void end_group() noexcept;

 private:
  MpiRuntime() = default;
  void run() noexcept;
  void end() noexcept;  // called by whoever ends the program
  void finalise(std::unique_lock<std::mutex>&) noexcept;
  friend struct MpiAtExit;

  const ProcessMark made_;

  std::mutex calls_mutex_;
  MpiCalls* calls_ = nullptr;  // set by the first who asks, before anybody calls

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool looked_ = false;
  bool started_ = false;
  int error_ = 0;  // MPI's, of its start
  bool stopping_ = false;
  bool ended_ = false;
  bool failed_ = false;
  bool ending_ = false;     // the program ends
  std::size_t groups_ = 0;  // those that use MPI
  std::vector<std::shared_ptr<const void>> kept_;
  std::thread thread_;  // owned here, joined by end()
};

}  // namespace tutti
