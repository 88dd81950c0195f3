// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/shared_memory/shared_memory_communicator.h>

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti::testing {

/// A meeting's name that no other test has, in no process.
std::string fresh_name();

/// Members of that many ranks with that many devices each.
std::vector<Member> members_of_ranks(std::size_t ranks, std::size_t devices);

/// Small pieces, so that many reductions have several, and a bounded wait.
SharedMemoryOptions small_pieces();

/// Whether ranks that are threads map each segment once for each of them, as processes do, or once for all, so that a
/// race detector sees that they use the same memory.
enum class Mapping { own, common };

/// Runs `work(rank, communicator)` on a thread for each rank; returns what each threw ("" for nothing).
std::vector<std::string> run_ranks(std::size_t ranks, std::size_t devices, SharedMemoryOptions, Mapping,
                                   const std::function<void(std::size_t, SharedMemoryCommunicator&)>& work);

/// The same; rethrows the first rank's error to the test.
void run_good_ranks(std::size_t ranks, std::size_t devices, SharedMemoryOptions, Mapping,
                    const std::function<void(std::size_t, SharedMemoryCommunicator&)>& work);

/// Makes the array of the device of this number in the group.
using ArrayMaker = std::function<Array(std::size_t number, const Shape&, DType, Device)>;
Array new_array(std::size_t number, const Shape&, DType, Device);  ///< in memory of the process's own

/// An all-reduce of all devices of a group, made from a seed: type, wire, size, who contributes, and the values.
struct RandomReduction {
  RandomReduction(std::uint64_t seed, std::size_t world);

  /// The request of some devices, for arrays that `array` makes; it fills them.
  AllReduceRequest request(std::size_t first, std::size_t count, std::size_t first_device,
                           const ArrayMaker& array) const;
  /// Bytes of the result, of LocalCommunicator with all devices in one process.
  std::vector<std::byte> expected() const;

  DType dtype = DType::f32;
  GradientWire wire = GradientWire::native;
  double denominator = 1.0;
  double wire_scale = 1.0;
  std::vector<bool> contributes;
  std::vector<std::vector<float>> values;  // by number
};

std::vector<std::byte> bytes_of(const Array&);

/// Launches that many random reductions at once and checks each slice's bits. Ranks of odd numbers wait for the last
/// one first. Throws on the first difference. `devices`: number of each rank's.
void reduce_many(Communicator&, std::span<const std::size_t> devices, std::size_t rank, std::size_t reductions,
                 const ArrayMaker& = new_array);
/// The same of ranks that have equally many devices; some slices lie in shared memory.
void reduce_many(SharedMemoryCommunicator&, std::size_t rank, std::size_t ranks, std::size_t devices,
                 std::size_t reductions);

/// A process of its own that is one rank: this program, running the test case "shared_memory: a rank's process" alone.
class RankProcess {
 public:
  /// `role`: what it does (rank_processes_test.cpp).
  RankProcess(const std::string& role, const std::string& name, std::size_t rank, std::size_t ranks,
              std::size_t devices);
  ~RankProcess();  ///< kills it if it runs still
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  pid_t id() const noexcept { return id_; }
  int status();  ///< waits up to a minute for its end: what waitpid says; -1: it runs still

 private:
  pid_t id_ = -1;
};

std::size_t open_descriptors();  ///< of this process

}  // namespace tutti::testing
