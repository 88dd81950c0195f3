// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/nccl/recording_nccl.h>

#include <tutti/tests/backend/cuda/recording/cuda_machine.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <utility>

namespace tutti::testing {

namespace {

struct Communicator {
  int rank = 0;
  int size = 0;
  int device = 0;
  int polls_left = 0;
  bool aborted = false;
  ncclResult_t state = ncclSuccess;
};

/// One rank's part in a collective, or one end of a transfer.
struct Part {
  enum class Kind : std::uint8_t { all_reduce, reduce, send, receive } kind;
  Communicator* communicator;
  const void* from;
  void* to;
  std::size_t count;
  ncclDataType_t type;
  int other;  // root or peer
  SimulatedStream* stream;
};

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64: return 8;
    case ncclFloat32:
    case ncclInt32: return 4;
    default: return 1;
  }
}

template <class T> void sum_into(const std::vector<Part>& parts) {
  std::vector<T> sums(parts.front().count, T(0));
  for (const Part& part : parts)
    for (std::size_t i = 0; i < part.count; ++i) sums[i] += static_cast<const T*>(part.from)[i];
  for (const Part& part : parts)
    if (part.kind == Part::Kind::all_reduce || part.communicator->rank == part.other)
      std::memcpy(part.to, sums.data(), sums.size() * sizeof(T));
}

void sum_up(const std::vector<Part>& parts) {
  switch (parts.front().type) {
    case ncclFloat64: return sum_into<double>(parts);
    case ncclInt32: return sum_into<std::int32_t>(parts);
    case ncclInt64: return sum_into<std::int64_t>(parts);
    default: return sum_into<float>(parts);
  }
}

struct Group {
  int depth = 0;
  std::vector<Part> parts;
  ncclResult_t failure = ncclSuccess;  // of a call in it: then its end starts nothing
};
thread_local Group group;
RecordingNccl* current = nullptr;

}  // namespace

struct RecordingNccl::State {
  std::map<std::string, std::size_t, std::less<>> calls;
  std::deque<Communicator> communicators;
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
  void check(const char* call, const Communicator& communicator) const {
    if (communicator.aborted) fault(fmt::format("{} on a communicator that was aborted", call));
    if (communicator.polls_left > 0) fault(fmt::format("{} on a communicator that is still connecting", call));
    if (communicator.size > 1 && group.depth == 0) fault(fmt::format("{} outside a group", call));
    if (machine().thread().device != communicator.device)
      fault(fmt::format("{} of rank {} while cuda:{} is current", call, communicator.rank, machine().thread().device));
  }

  // All parts of ranks that belong together; the first rank's stream does the work when every other has come.
  void run(CudaMachine::Lock& lock, const std::string& name, const std::vector<Part>& parts,
           std::function<void()> work) const {
    std::vector<std::shared_ptr<QueuePoint>> arrived;
    for (const Part& part : parts) {
      std::vector<MemoryUse> uses;
      const std::size_t bytes = part.count * size_of(part.type);
      if (part.from != nullptr) uses.push_back({part.from, bytes, false});
      if (part.to != nullptr) uses.push_back({part.to, bytes, true});
      arrived.push_back(std::make_shared<QueuePoint>(QueuePoint{part.stream, {}, false}));
      machine().enqueue(lock, *part.stream, {name, {}, arrived.back(), {}}, uses);
    }
    const auto done = std::make_shared<QueuePoint>(QueuePoint{parts.front().stream, {}, false});
    for (const auto& point : arrived) machine().enqueue(lock, *parts.front().stream, {name, {}, {}, point});
    machine().enqueue(lock, *parts.front().stream, {name, std::move(work), done, {}});
    for (const Part& part : parts)
      if (part.stream != parts.front().stream) machine().enqueue(lock, *part.stream, {name, {}, {}, done});
  }
  void run_group(CudaMachine::Lock& lock, std::vector<Part> parts) const;
  void run_sum(CudaMachine::Lock& lock, std::vector<Part>& parts) const;
  void run_transfer(CudaMachine::Lock& lock, std::vector<Part>& parts) const;
};

// The first part and its fellows: the next sum of each other rank.
void RecordingNccl::State::run_sum(CudaMachine::Lock& lock, std::vector<Part>& parts) const {
  const Part first = parts.front();
  std::vector<Part> together;
  for (int rank = 0; rank < first.communicator->size; ++rank) {
    const auto found = std::ranges::find_if(parts, [&](const Part& part) {
      return part.communicator->rank == rank &&
             (part.kind == Part::Kind::all_reduce || part.kind == Part::Kind::reduce);
    });
    if (found == parts.end() || found->kind != first.kind || found->count != first.count || found->type != first.type ||
        found->other != first.other) {
      fault(fmt::format("a sum of {} elements has no part of rank {} in its group", first.count, rank));
      return parts.clear();
    }
    together.push_back(*found);
    parts.erase(found);
  }
  run(lock, first.kind == Part::Kind::all_reduce ? "ncclAllReduce" : "ncclReduce", together,
      [together] { sum_up(together); });
}

void RecordingNccl::State::run_transfer(CudaMachine::Lock& lock, std::vector<Part>& parts) const {
  const Part first = parts.front();
  const auto found = std::ranges::find_if(parts, [&](const Part& part) {
    return part.kind != first.kind && part.kind >= Part::Kind::send && part.communicator->rank == first.other &&
           part.other == first.communicator->rank;
  });
  if (found == parts.end() || found->count != first.count) {
    fault(fmt::format("a transfer between ranks {} and {} has one end in its group", first.communicator->rank,
                      first.other));
    return parts.clear();
  }
  const Part second = *found;
  parts.erase(found);
  parts.erase(parts.begin());
  const Part& from = first.kind == Part::Kind::send ? first : second;
  const Part& to = first.kind == Part::Kind::send ? second : first;
  run(lock, "ncclSend", {first, second}, [=] { std::memcpy(to.to, from.from, from.count * size_of(from.type)); });
}

void RecordingNccl::State::run_group(CudaMachine::Lock& lock, std::vector<Part> parts) const {
  while (!parts.empty()) {
    if (parts.front().kind == Part::Kind::all_reduce || parts.front().kind == Part::Kind::reduce)
      run_sum(lock, parts);
    else
      run_transfer(lock, parts);
  }
}

RecordingNccl::RecordingNccl() : state_(std::make_unique<State>()) { current = this; }

RecordingNccl::~RecordingNccl() {
  const CudaMachine::Lock lock(state_->machine().mutex);
  if (const std::size_t left = alive(); left > 0)
    state_->fault(fmt::format("{} communicators were never aborted", left));
  current = nullptr;
}

std::size_t RecordingNccl::count(std::string_view call) const {
  const auto found = state_->calls.find(call);
  return found == state_->calls.end() ? 0 : found->second;
}

std::size_t RecordingNccl::alive() const {
  std::size_t alive = 0;
  for (const Communicator& communicator : state_->communicators) alive += communicator.aborted ? 0 : 1;
  return alive;
}

void RecordingNccl::fail_call(std::string_view name, std::size_t nth, ncclResult_t error) {
  const CudaMachine::Lock lock(state_->machine().mutex);
  state_->failing = name;
  state_->failing_in = nth;
  state_->failure = error;
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
    if (group.depth == 0) state.run_group(lock, std::exchange(group.parts, {}));
    return ncclSuccess;
  });
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "a remote process failed" : "an error that the test made";
}

ncclResult_t ncclGetVersion(int* version) {
  return nccl_call("ncclGetVersion", [&](RecordingNccl::State&, CudaMachine::Lock&) {
    *version = current->version;
    return ncclSuccess;
  });
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return nccl_call("ncclGetUniqueId", [&](RecordingNccl::State&, CudaMachine::Lock&) {
    std::memset(id, 7, sizeof *id);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int size, ncclUniqueId, int rank, ncclConfig_t* configuration) {
  return nccl_call("ncclCommInitRankConfig", [&](RecordingNccl::State& state, CudaMachine::Lock&) {
    if (configuration->blocking != 0) state.fault("a communicator that blocks");
    if (size > 1 && group.depth == 0) state.fault("ncclCommInitRankConfig outside a group");
    state.communicators.push_back(
        {rank, size, state.machine().thread().device, current->polls_to_connect, false, ncclSuccess});
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
  if (group.depth > 0) --group.depth;
  return nccl_call("ncclGroupEnd", [](RecordingNccl::State& state, CudaMachine::Lock& lock) {
    if (group.depth > 0) return ncclSuccess;
    std::vector<Part> parts = std::exchange(group.parts, {});
    if (group.failure != ncclSuccess) return std::exchange(group.failure, ncclSuccess);
    state.run_group(lock, std::move(parts));
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* result) {
  return nccl_call("ncclCommGetAsyncError", [&](RecordingNccl::State&, CudaMachine::Lock&) {
    auto& communicator = *reinterpret_cast<Communicator*>(handle);
    *result = communicator.polls_left > 0 ? ncclInProgress : communicator.state;
    if (communicator.polls_left > 0) --communicator.polls_left;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return nccl_call("ncclCommAbort", [&](RecordingNccl::State& state, CudaMachine::Lock&) {
    auto& communicator = *reinterpret_cast<Communicator*>(handle);
    if (std::exchange(communicator.aborted, true)) state.fault("a communicator was aborted twice");
    return ncclSuccess;
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
