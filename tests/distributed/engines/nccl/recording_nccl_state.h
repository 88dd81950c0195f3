// SPDX-License-Identifier: Apache-2.0
#pragma once

// What stands behind RecordingNccl: communicators, and what ranks do together.

#include <tutti/tests/backend/cuda/recording/cuda_machine.h>
#include <tutti/tests/distributed/engines/nccl/recording_nccl.h>

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::testing {

struct NcclRank {
  int rank = 0;
  int size = 0;
  int device = 0;
  int polls_left = 0;
  bool aborted = false;
  ncclResult_t state = ncclSuccess;
  int world = 0;          // number of the unique id
  std::size_t group = 0;  // of the calls that made it
  bool revoked = false;
  bool finalized = false;
  int running = 0;                   // what was queued with it and has not run
  NcclRank* smaller = nullptr;       // what ncclCommShrink makes of it
  ncclComm_t* smaller_at = nullptr;  // where that will be handed over
};

/// A rank's call of ncclCommShrink.
struct NcclShrinking {
  NcclRank* from;
  ncclComm_t* to;
  std::vector<int> excluded;
};

/// One rank's part in a collective, or one end of a transfer.
struct NcclPart {
  enum class Kind : std::uint8_t { all_reduce, reduce, send, receive } kind;
  NcclRank* communicator;
  const void* from;
  void* to;
  std::size_t count;
  ncclDataType_t type;
  int other;  // root or peer
  SimulatedStream* stream;
};

/// What ranks of different processes do together: it begins when the last has come, and holds up their streams.
struct NcclMeeting {
  std::vector<NcclPart> parts;
  std::vector<std::shared_ptr<QueuePoint>> arrived;
  std::shared_ptr<QueuePoint> done;
};

/// What ranks of one process do together, until it has run.
struct NcclRun {
  std::vector<NcclRank*> ranks;
  std::vector<std::shared_ptr<QueuePoint>> points;
  std::shared_ptr<std::atomic<bool>> ended;  // by NCCL, before it has run
};

struct RecordingNccl::State {
  std::map<std::string, std::size_t, std::less<>> calls;
  std::deque<NcclRank> communicators;
  std::deque<NcclMeeting> meetings;     // in the order in which they were begun
  std::vector<NcclRun> runs;            // that may still be under way
  std::map<int, std::size_t> received;  // bytes, by device
  SimulatedStream nowhere{};            // of points that nothing queued leads to yet
  int worlds = 0;
  std::size_t groups = 0;
  std::string failing;
  std::size_t failing_in = 0;
  ncclResult_t failure = ncclSuccess;

  CudaMachine& machine() const { return *CudaMachine::current(); }
  void fault(std::string text) const { machine().fault(std::move(text)); }

  ncclResult_t enter(std::string_view name) {
    ++calls[std::string(name)];
    if (failing == name && --failing_in == 0) {
      failing.clear();
      return failure;
    }
    return ncclSuccess;
  }
  void check(const char* call, const NcclRank& communicator) const;
  void make_smaller(const std::vector<NcclShrinking>& calls, int polls);
  static void hand_over(NcclRank& communicator);
  void end_work_of(const NcclRank& communicator);

  // All parts of ranks that belong together; the first rank's stream does the work when every other has come.
  void run(CudaMachine::Lock& lock, const std::string& name, const std::vector<NcclPart>& parts,
           std::function<void()> work);
  void run_group(CudaMachine::Lock& lock, std::vector<NcclPart> parts);
  bool spans_processes(const NcclPart& part) const;
  void meet(CudaMachine::Lock& lock, const NcclPart& part, std::vector<std::function<void()>>& later);
  void hold(CudaMachine::Lock& lock, const NcclMeeting& meeting);
  void run_sum(CudaMachine::Lock& lock, std::vector<NcclPart>& parts);
  void run_transfer(CudaMachine::Lock& lock, std::vector<NcclPart>& parts);
};

}  // namespace tutti::testing
