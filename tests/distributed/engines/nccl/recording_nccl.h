// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::testing {

/// NCCL for the devices of a RecordingCuda, which must outlive it: sums and copies really happen, on the streams that
/// were named and in their order, once all ranks' parts are there. These mistakes are found beside those of
/// RecordingCuda (which tells of them):
///  - a call outside a group while several devices are driven; one whose communicator is of another device than the
///    current one;
///  - a group in which ranks' calls do not match, and what ranks of a world wait for that others never do;
///  - a communicator used while it connects, after it was aborted, revoked or finalized, or twice at a time; one that
///  is destroyed before all ranks' are finalized; when this goes: one that is left;
///  - a communicator made smaller while what was queued with it may run, by ranks that are excluded, or not by all
///  others.
/// Ranks that are made in different groups of calls play different processes: their calls meet whenever they come.
class RecordingNccl {
 public:
  RecordingNccl();
  ~RecordingNccl();
  RecordingNccl(const RecordingNccl&) = delete;
  RecordingNccl& operator=(const RecordingNccl&) = delete;

  int version = NCCL_VERSION_CODE;
  int polls_to_connect = 2;  ///< answers of ncclInProgress before a communicator is connected
  int polls_to_finish = 2;   ///< or, when it has been finalized, may be destroyed

  std::size_t count(std::string_view call) const;
  std::size_t alive() const;                     ///< communicators
  std::size_t bytes_received(int device) const;  ///< by ncclRecv
  /// The nth call of that name from now on returns the error.
  void fail_call(std::string_view name, std::size_t nth, ncclResult_t);
  bool failed() const;  ///< whether that has happened
  void let_connect();   ///< what is still connecting is connected with the next answer
  /// What communicators say of what runs, from now on; those made later are well.
  void break_connections(ncclResult_t);

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace tutti::testing
