// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/distributed/engines/gpu_engines.h>
#include <tutti/distributed/engines/network/mpi/mpi_runtime.h>
#include <tutti/distributed/process_group.h>
#include <tutti/distributed/processes/process_link.h>
#include <tutti/distributed/threads/allowed_cores.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

/// The words of a process about itself when its devices are connected.
struct FirstWords {
  using Bytes = ProcessLink::Bytes;
  using Identity = std::array<std::uint8_t, 32>;

  std::array<std::uint8_t, 16> nonce{};  ///< random; rank 0's tells runs of a job apart
  Identity memory{};                     ///< the same for processes that can share memory
  std::uint64_t array_addresses = 0;     ///< most bytes of addresses that it can have for each process's arrays
  std::uint16_t port = 0;                ///< door for connections of the network engine
  ProcessEngine engine{};                ///< the one that it asks for
  MpiTrouble mpi{};                      ///< reason why it cannot use MPI, where it asks for that
  GpuMeeting gpus{};                     ///< rank 0's connects all CUDA devices
  Cores cores;                           ///< those of its host on which it may run
  std::uint32_t threads = 0;             ///< number that compute for its devices
  DeviceKind kind = DeviceKind::cpu;     ///< kind of its devices
  std::vector<std::uint16_t> devices;    ///< their indices, one or more

  /// All but what an engine needs. `devices`: of one kind.
  static FirstWords of_this_process(std::span<const Device> devices);
  Bytes bytes() const;
  /// Those of all processes, by rank. Throws SyncError naming the rank for bytes that are no words.
  static std::vector<FirstWords> read(std::span<const Bytes> by_rank);
  /// Throws SyncError, naming two ranks, for devices of two kinds.
  static void require_one_kind(std::span<const FirstWords>);
  /// True if all ask for MPI, and can use it. Throws SyncError naming a rank where only some ask, or one cannot.
  static bool use_mpi(std::span<const FirstWords>);
  /// Whether all threads of these processes of one host have a core each, so that the process may wait without sleep.
  static bool cores_are_free(std::span<const FirstWords>, int rank);
  /// Whether all can share memory, and none asks for the network.
  static bool share_memory(std::span<const FirstWords>);
  /// The bytes of addresses that all of them can have for each process's arrays.
  static std::size_t addresses(std::span<const FirstWords>);
};

}  // namespace tutti
