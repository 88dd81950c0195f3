// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// A communicator or a request of MPI, stored as whichever MPI it is stores them.
struct MpiHandle {
  alignas(8) std::byte bytes[8]{};
};

/// A request of MPI. One that is not active is done, or was never begun.
struct MpiRequest {
  MpiHandle handle{};
  bool active = false;
};

/// The calls of MPI that the engine makes, as its plugin has them: a library of its own, as it alone is linked with
/// MPI. Nothing here throws; ints that are returned are MPI's error codes, 0 for none. One thread at a time.
class MpiCalls {
 public:
  enum class State : std::uint8_t { not_started, running, finished };
  enum class Threads : std::uint8_t { single, funneled, serialized, multiple };

  virtual State state() const noexcept = 0;
  virtual Threads threads() const noexcept = 0;  ///< the level that MPI allows, once it runs
  /// Blocks until all processes have called it. `arguments` of main are not needed.
  virtual int start(Threads) noexcept = 0;
  virtual void finish() noexcept = 0;  ///< blocks until all processes have called it
  virtual int world_size() const noexcept = 0;
  virtual int world_rank() const noexcept = 0;
  /// Ends all processes, as far as MPI can.
  virtual void abort() noexcept = 0;

  /// Begins to make a communicator of all processes, which all call.
  virtual int begin_communicator(MpiHandle& communicator, MpiRequest&) noexcept = 0;
  /// Makes a communicator that is there return errors.
  virtual int return_errors(MpiHandle& communicator) noexcept = 0;

  virtual int send(const MpiHandle& communicator, int rank, int tag, std::span<const std::byte>,
                   MpiRequest&) noexcept = 0;
  virtual int receive(const MpiHandle& communicator, int rank, int tag, std::span<std::byte>, MpiRequest&) noexcept = 0;
  virtual int test(MpiRequest&) noexcept = 0;  ///< looks how far an active one is
  virtual int test_some(
      std::span<MpiRequest* const>) noexcept = 0;  ///< looks once for all of these, one or more, which are active
  virtual void cancel(MpiRequest&) noexcept = 0;   ///< ends a receive, which still has to be tested
  /// Writes what an error code means, and a 0.
  virtual void describe(int error, std::span<char> text) const noexcept = 0;

 protected:
  ~MpiCalls() = default;
};

/// Name of the plugin's one function, which gives its calls; it changes when MpiCalls does.
constexpr const char* kMpiEntry = "tutti_mpi_calls_1";
using MpiEntry = MpiCalls* (*)();

}  // namespace tutti
