// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/distributed/processes/launch_environment.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

namespace tutti {

class Communicator;
class ProcessLink;

/// Engine that reduces between processes.
enum class ProcessEngine : std::uint8_t {
  /// CPU devices: shared memory where all processes have one host, user and network namespace, else the network. CUDA
  /// devices: NCCL.
  automatic,
  network,  ///< connections between all processes, also of one host, for all if one asks for it; of CPU devices only
  /// MPI, of processes that mpirun has started and that all ask for it; of CPU devices only. Nothing is encrypted, and
  /// a lost process ends the job. A program that initialises MPI itself does that first, for MPI_THREAD_MULTIPLE.
  mpi,
};

struct ProcessOptions {
  std::chrono::milliseconds rendezvous{60'000};  ///< time from the start until all processes have come
  std::chrono::milliseconds silence{2'000};      ///< time after which a process that says nothing counts as lost
  ProcessEngine engine = ProcessEngine::automatic;
  /// False: what goes between hosts is readable and changeable by who is on the way. Connections prove the job's secret
  /// all the same. The same for all processes. Says nothing about MPI's own connections.
  bool encrypt = true;
};

/// The processes of a job, of which this is one. They find each other when it is made, watch each other until it goes,
/// and serve one GradientSync. Lives longer than that. All have CPU devices, or all have CUDA devices.
class ProcessGroup {
 public:
  /// Reads this process's place from what launchers set (launch_place), and waits for the others; alone if nothing is
  /// set. Throws Error: what launch_place throws; for what ControlChannel throws, naming the ranks that did not come or
  /// differ; where the library was built without libzmq and libsodium and there are others; where it is alone, asks for
  /// MPI, and mpirun has not started it.
  static ProcessGroup from_environment(const ProcessOptions& options = {});
  ProcessGroup(const LaunchPlace&, const ProcessOptions&);
  ProcessGroup(ProcessGroup&&) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) noexcept;
  ~ProcessGroup();  ///< the others see this process's end

  int rank() const noexcept;
  int size() const noexcept;
  bool alone() const noexcept { return size() == 1; }
  int local_rank() const noexcept;  ///< number among the processes of its host, as the launcher has told; else 0
  /// Name of the engine that reduces between the processes: "shared memory", "network", "MPI" or "NCCL"; "none" before
  /// `connect`.
  const char* engine() const noexcept;

  struct Connection {
    std::unique_ptr<Communicator> engine;
    std::unique_ptr<ProcessLink> link;
  };
  /// Connects these devices of this process with those of the others, which wait for it; for GradientSync. `patience`:
  /// time after which the engine gives up a process that does not come to a reduction. Throws DeviceError
  /// for two CUDA devices on one GPU; SyncError for no devices; devices of several kinds, or of one that no engine
  /// connects, naming them and their ranks; a process that does not come in time or has other options, naming it; what
  /// NCCL says of CUDA devices; where MPI is asked for, a process that cannot use it or does not ask; a second call.
  Connection connect(std::span<const Device>, std::chrono::milliseconds patience);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti
