// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/engines/nccl/recording_nccl_state.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tutti::testing {

using Part = NcclPart;
using Meeting = NcclMeeting;
using Communicator = NcclRank;

namespace {

struct Group {
  int depth = 0;
  std::vector<Part> parts;
  std::vector<NcclShrinking> shrinkings;
  ncclResult_t failure = ncclSuccess;  // of a call in it: then its end starts nothing
};
thread_local Group group;
RecordingNccl* current = nullptr;

}  // namespace

void RecordingNccl::State::check(const char* call, const NcclRank& communicator) const {
  if (communicator.aborted) fault(fmt::format("{} on a communicator that was aborted", call));
  if (communicator.revoked) fault(fmt::format("{} on a communicator that was revoked", call));
  if (communicator.finalized) fault(fmt::format("{} on a communicator that was finalized", call));
  if (communicator.polls_left > 0) fault(fmt::format("{} on a communicator that is still connecting", call));
  if (communicator.size > 1 && group.depth == 0) fault(fmt::format("{} outside a group", call));
  if (machine().thread().device != communicator.device)
    fault(fmt::format("{} of rank {} while cuda:{} is current", call, communicator.rank, machine().thread().device));
}

RecordingNccl::RecordingNccl() : state_(std::make_unique<State>()) { current = this; }

RecordingNccl::~RecordingNccl() {
  const CudaMachine::Lock lock(state_->machine().mutex);
  if (const std::size_t left = alive(); left > 0)
    state_->fault(fmt::format("{} communicators were never destroyed or aborted", left));
  for (const Meeting& meeting : state_->meetings)
    state_->fault(fmt::format("rank {} waits for others that never came", meeting.parts.front().communicator->rank));
  current = nullptr;
}

std::size_t RecordingNccl::count(std::string_view call) const {
  const CudaMachine::Lock lock(state_->machine().mutex);
  const auto found = state_->calls.find(call);
  return found == state_->calls.end() ? 0 : found->second;
}

std::size_t RecordingNccl::alive() const {
  std::size_t alive = 0;
  for (const Communicator& communicator : state_->communicators) alive += communicator.aborted ? 0 : 1;
  return alive;
}

std::size_t RecordingNccl::bytes_received(int device) const {
  const auto found = state_->received.find(device);
  return found == state_->received.end() ? 0 : found->second;
}

void RecordingNccl::fail_call(std::string_view name, std::size_t nth, ncclResult_t error) {
  const CudaMachine::Lock lock(state_->machine().mutex);
  state_->failing = name;
  state_->failing_in = nth;
  state_->failure = error;
}

bool RecordingNccl::failed() const { return state_->failing.empty(); }

void RecordingNccl::let_connect() {
  const CudaMachine::Lock lock(state_->machine().mutex);
  for (Communicator& communicator : state_->communicators) communicator.polls_left = 0;
}

void RecordingNccl::break_connections(ncclResult_t error) {
  const CudaMachine::Lock lock(state_->machine().mutex);
  for (Communicator& communicator : state_->communicators) communicator.state = error;
}

namespace {

/// One function of NCCL: `body(state, lock)` does it, unless the test makes it fail.
template <class F> ncclResult_t nccl_call(const char* name, F&& body) {
  if (current == nullptr) return ncclSystemError;
  RecordingNccl::State& state = current->state();
  CudaMachine::Lock lock(state.machine().mutex);
  const ncclResult_t result = state.enter(name);
  if (result == ncclSuccess) return body(state, lock);
  if (group.depth > 0) group.failure = result;
  return result;
}

ncclResult_t add_part(const char* name, Part part, ncclComm_t handle, cudaStream_t stream) {
  return nccl_call(name, [&](RecordingNccl::State& state, CudaMachine::Lock& lock) {
    part.communicator = reinterpret_cast<Communicator*>(handle);
    state.check(name, *part.communicator);
    part.stream = state.machine().stream(name, stream);
    if (part.stream == nullptr) return ncclInvalidArgument;
    group.parts.push_back(part);
    ++part.communicator->running;
    if (part.kind == Part::Kind::receive) state.received[part.communicator->device] += part.count;
    if (group.depth == 0) state.run_group(lock, std::exchange(group.parts, {}));
    return ncclSuccess;
  });
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "a remote process failed" : "an error that the test made";
}

const char* ncclGetLastError(ncclComm_t) { return "as it was told to"; }

ncclResult_t ncclGetVersion(int* version) {
  return nccl_call("ncclGetVersion", [&](RecordingNccl::State&, CudaMachine::Lock&) {
    *version = current->version;
    return ncclSuccess;
  });
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return nccl_call("ncclGetUniqueId", [&](RecordingNccl::State& state, CudaMachine::Lock&) {
    std::memset(id, 7, sizeof *id);
    std::memcpy(id, &++state.worlds, sizeof state.worlds);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* configuration) {
  return nccl_call("ncclCommInitRankConfig", [&](RecordingNccl::State& state, CudaMachine::Lock&) {
    if (configuration->blocking != 0) state.fault("a communicator that blocks");
    if (size > 1 && group.depth == 0) state.fault("ncclCommInitRankConfig outside a group");
    int world = 0;
    std::memcpy(&world, &id, sizeof world);
    state.communicators.push_back({rank, size, state.machine().thread().device, current->polls_to_connect, false,
                                   ncclSuccess, world, state.groups});
    *handle = reinterpret_cast<ncclComm_t>(&state.communicators.back());
    return ncclInProgress;
  });
}

ncclResult_t ncclGroupStart() {
  return nccl_call("ncclGroupStart", [](RecordingNccl::State&, CudaMachine::Lock&) {
    ++group.depth;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() {
  Group ended;
  if (group.depth > 0 && --group.depth == 0) ended = std::exchange(group, {});
  return nccl_call("ncclGroupEnd", [&](RecordingNccl::State& state, CudaMachine::Lock& lock) {
    if (group.depth > 0) return ncclSuccess;
    ++state.groups;
    if (ended.failure != ncclSuccess) return ended.failure;
    state.make_smaller(ended.shrinkings, current->polls_to_connect);
    state.run_group(lock, std::move(ended.parts));
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* result) {
  return nccl_call("ncclCommGetAsyncError", [&](RecordingNccl::State& state, CudaMachine::Lock&) {
    auto& communicator = *reinterpret_cast<Communicator*>(handle);
    if (communicator.aborted) state.fault("ncclCommGetAsyncError of a communicator that was aborted");
    const bool flushing = communicator.finalized && communicator.running > 0 && communicator.state == ncclSuccess;
    *result = communicator.polls_left > 0 || flushing ? ncclInProgress : communicator.state;
    if (communicator.polls_left > 0)
      --communicator.polls_left;
    else
      RecordingNccl::State::hand_over(communicator);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return nccl_call("ncclCommFinalize", [&](RecordingNccl::State& state, CudaMachine::Lock&) {
    auto& communicator = *reinterpret_cast<Communicator*>(handle);
    if (communicator.aborted) state.fault("ncclCommFinalize of a communicator that was aborted");
    if (communicator.revoked) state.fault("ncclCommFinalize of a communicator that was revoked");
    if (communicator.polls_left > 0) state.fault("ncclCommFinalize of a communicator that is still connecting");
    if (std::exchange(communicator.finalized, true)) return ncclInvalidArgument;
    communicator.polls_left = current->polls_to_finish;
    return ncclInProgress;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return nccl_call("ncclCommDestroy", [&](RecordingNccl::State& state, CudaMachine::Lock&) {
    auto& communicator = *reinterpret_cast<Communicator*>(handle);
    if (!communicator.finalized || communicator.polls_left > 0)
      state.fault("ncclCommDestroy of a communicator that was not finalized");
    for (const Communicator& other : state.communicators)
      if (other.world == communicator.world && other.group == communicator.group && !other.finalized)
        state.fault(fmt::format("ncclCommDestroy before rank {} was finalized", other.rank));
    if (std::exchange(communicator.aborted, true)) state.fault("a communicator was destroyed twice");
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return nccl_call("ncclCommAbort", [&](RecordingNccl::State& state, CudaMachine::Lock&) {
    auto& communicator = *reinterpret_cast<Communicator*>(handle);
    if (std::exchange(communicator.aborted, true)) state.fault("a communicator was aborted twice");
    state.end_work_of(communicator);
    RecordingNccl::State::hand_over(communicator);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommRevoke(ncclComm_t handle, int flags) {
  return nccl_call("ncclCommRevoke", [&](RecordingNccl::State& state, CudaMachine::Lock&) {
    auto& communicator = *reinterpret_cast<Communicator*>(handle);
    if (communicator.aborted) state.fault("ncclCommRevoke of a communicator that was aborted");
    if (communicator.smaller_at != nullptr) state.fault("ncclCommRevoke while ncclCommShrink is under way");
    if (flags != NCCL_REVOKE_DEFAULT || std::exchange(communicator.revoked, true)) return ncclInvalidArgument;
    state.end_work_of(communicator);
    communicator.state = ncclSuccess;
    communicator.polls_left = current->polls_to_connect;
    return ncclInProgress;
  });
}

ncclResult_t ncclCommShrink(ncclComm_t handle, int* excluded, int count, ncclComm_t* smaller, ncclConfig_t*,
                            int flags) {
  return nccl_call("ncclCommShrink", [&](RecordingNccl::State& state, CudaMachine::Lock&) {
    auto& communicator = *reinterpret_cast<Communicator*>(handle);
    const bool revoked = std::exchange(communicator.revoked, false);
    state.check("ncclCommShrink", communicator);
    if (count == 0 || std::count(excluded, excluded + count, communicator.rank) > 0) return ncclInvalidArgument;
    if (communicator.state != ncclSuccess) return communicator.state;
    if (communicator.running > 0 && !revoked && (flags & NCCL_SHRINK_ABORT) == 0)
      state.fault(fmt::format("ncclCommShrink of rank {} while it may be at work", communicator.rank));
    communicator.revoked = true;  // or as good as that
    if ((flags & NCCL_SHRINK_ABORT) != 0) ++state.calls["ncclCommShrink with NCCL_SHRINK_ABORT"];
    *smaller = nullptr;
    group.shrinkings.push_back({&communicator, smaller, {excluded, excluded + count}});
    return ncclInProgress;
  });
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t communicator, cudaStream_t stream) {
  return add_part("ncclAllReduce", {Part::Kind::all_reduce, nullptr, from, to, count, type, 0, nullptr}, communicator,
                  stream);
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t, int root,
                        ncclComm_t communicator, cudaStream_t stream) {
  return add_part("ncclReduce", {Part::Kind::reduce, nullptr, from, to, count, type, root, nullptr}, communicator,
                  stream);
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return add_part("ncclSend", {Part::Kind::send, nullptr, from, nullptr, count, type, peer, nullptr}, communicator,
                  stream);
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return add_part("ncclRecv", {Part::Kind::receive, nullptr, nullptr, to, count, type, peer, nullptr}, communicator,
                  stream);
}

}  // extern "C"

}  // namespace tutti::testing
