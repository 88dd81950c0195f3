// SPDX-License-Identifier: Apache-2.0
// How parts of ranks become work on the machine's streams.
#include <tutti/tests/distributed/engines/nccl/recording_nccl_state.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tutti::testing {

using Part = NcclPart;
using Meeting = NcclMeeting;
using Communicator = NcclRank;

namespace {

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

bool is_sum(const Part& part) { return part.kind == Part::Kind::all_reduce || part.kind == Part::Kind::reduce; }

std::function<void()> finishing(const std::vector<Part>& parts, std::function<void()> work) {
  return [parts, work = std::move(work)] {
    work();
    for (const Part& part : parts) --part.communicator->running;
  };
}

/// Whether `part` is what those at the meeting wait for.
bool belongs(const Meeting& meeting, const Part& part) {
  const Part& first = meeting.parts.front();
  if (first.communicator->world != part.communicator->world) return false;
  if (!is_sum(part))
    return !is_sum(first) && first.kind != part.kind && first.other == part.communicator->rank &&
           part.other == first.communicator->rank;
  return is_sum(first) && std::ranges::none_of(meeting.parts, [&](const Part& each) {
           return each.communicator->rank == part.communicator->rank;
         });
}

}  // namespace

void RecordingNccl::State::run(CudaMachine::Lock& lock, const std::string& name, const std::vector<NcclPart>& parts,
                               std::function<void()> work) {
  std::vector<std::shared_ptr<QueuePoint>> arrived;
  for (const NcclPart& part : parts) {
    std::vector<MemoryUse> uses;
    const std::size_t bytes = part.count * size_of(part.type);
    if (part.from != nullptr) uses.push_back({part.from, bytes, false});
    if (part.to != nullptr) uses.push_back({part.to, bytes, true});
    arrived.push_back(std::make_shared<QueuePoint>(QueuePoint{part.stream, {}, false}));
    machine().enqueue(lock, *part.stream, {name, {}, arrived.back(), {}}, uses);
  }
  const auto done = std::make_shared<QueuePoint>(QueuePoint{parts.front().stream, {}, false});
  std::erase_if(runs, [](const NcclRun& run) { return run.points.back()->reached; });
  NcclRun& run = runs.emplace_back(NcclRun{{}, arrived, std::make_shared<std::atomic<bool>>(false)});
  for (const NcclPart& part : parts) run.ranks.push_back(part.communicator);
  run.points.push_back(done);
  const auto unless_ended = [work = std::move(work), ended = run.ended] {
    if (!*ended) work();
  };
  for (const auto& point : arrived) machine().enqueue(lock, *parts.front().stream, {name, {}, {}, point});
  machine().enqueue(lock, *parts.front().stream, {name, finishing(parts, unless_ended), done, {}});
  for (const NcclPart& part : parts)
    if (part.stream != parts.front().stream) machine().enqueue(lock, *part.stream, {name, {}, {}, done});
}
// The first part and its fellows: the next sum of each other rank.
void RecordingNccl::State::run_sum(CudaMachine::Lock& lock, std::vector<Part>& parts) {
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

void RecordingNccl::State::run_transfer(CudaMachine::Lock& lock, std::vector<Part>& parts) {
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

bool RecordingNccl::State::spans_processes(const Part& part) const {
  return std::ranges::count_if(communicators, [&](const Communicator& each) {
           return each.world == part.communicator->world && each.group == part.communicator->group;
         }) < part.communicator->size;
}

// What waits for others is put into `later`, behind all arrivals of its group, whose parts run at the same time.
void RecordingNccl::State::meet(CudaMachine::Lock& lock, const Part& part, std::vector<std::function<void()>>& later) {
  auto found = std::ranges::find_if(meetings, [&](const Meeting& meeting) { return belongs(meeting, part); });
  if (found == meetings.end()) {
    meetings.push_back({{}, {}, std::make_shared<QueuePoint>(QueuePoint{&nowhere, {}, false})});
    found = meetings.end() - 1;
  } else if (const Part& first = found->parts.front();
             found->parts.front().count != part.count ||
             (is_sum(part) && (first.kind != part.kind || first.type != part.type || first.other != part.other))) {
    fault(fmt::format("ranks {} and {} do different things at the same time", first.communicator->rank,
                      part.communicator->rank));
  }
  std::vector<MemoryUse> uses;
  const std::size_t bytes = part.count * size_of(part.type);
  if (part.from != nullptr) uses.push_back({part.from, bytes, false});
  if (part.to != nullptr) uses.push_back({part.to, bytes, true});
  found->parts.push_back(part);
  found->arrived.push_back(std::make_shared<QueuePoint>(QueuePoint{part.stream, {}, false}));
  machine().enqueue(lock, *part.stream, {"a meeting of ranks", {}, found->arrived.back(), {}}, uses);
  const std::size_t expected = is_sum(part) ? static_cast<std::size_t>(part.communicator->size) : 2;
  if (found->parts.size() < expected) {
    later.emplace_back([this, &lock, stream = part.stream, done = found->done] {
      machine().enqueue(lock, *stream, {"a meeting of ranks", {}, {}, done});
    });
    return;
  }
  later.emplace_back([this, &lock, meeting = std::move(*found)] { hold(lock, meeting); });
  meetings.erase(found);
}

// On the last one's stream, behind all others.
void RecordingNccl::State::hold(CudaMachine::Lock& lock, const Meeting& meeting) {
  SimulatedStream& stream = *meeting.parts.back().stream;
  meeting.done->stream = &stream;
  for (const auto& point : meeting.arrived) machine().enqueue(lock, stream, {"a meeting of ranks", {}, {}, point});
  std::vector<Part> parts = meeting.parts;
  std::ranges::sort(parts, {}, [](const Part& part) { return part.communicator->rank; });
  const auto work = [parts] {
    if (is_sum(parts.front())) return sum_up(parts);
    const bool first_sends = parts[0].kind == Part::Kind::send;
    std::memcpy(parts[first_sends ? 1 : 0].to, parts[first_sends ? 0 : 1].from,
                parts[0].count * size_of(parts[0].type));
  };
  machine().enqueue(lock, stream,
                    {is_sum(parts.front()) ? "ncclAllReduce" : "ncclSend", finishing(parts, work), meeting.done, {}});
}

void RecordingNccl::State::make_smaller(const std::vector<NcclShrinking>& calls, int polls) {
  if (calls.empty()) return;
  const NcclShrinking& first = calls.front();
  const bool agree = std::ranges::all_of(calls, [&](const NcclShrinking& call) {
    return call.from->world == first.from->world && call.excluded == first.excluded;
  });
  const auto size = static_cast<std::size_t>(first.from->size) - first.excluded.size();
  if (!agree || calls.size() != size)
    return fault(fmt::format("{} of {} ranks that stay have called ncclCommShrink", calls.size(), size));
  ++worlds;
  for (const NcclShrinking& call : calls) {
    const auto gone = std::ranges::count_if(call.excluded, [&](int rank) { return rank < call.from->rank; });
    NcclRank smaller{.rank = call.from->rank - static_cast<int>(gone),
                     .size = static_cast<int>(size),
                     .device = call.from->device,
                     .polls_left = polls,
                     .world = worlds,
                     .group = groups};
    communicators.push_back(smaller);
    call.from->polls_left = polls;
    call.from->smaller = &communicators.back();
    call.from->smaller_at = call.to;
  }
}

// As NCCL does: when the larger one has made it, or at its end.
void RecordingNccl::State::hand_over(NcclRank& communicator) {
  if (ncclComm_t* const place = std::exchange(communicator.smaller_at, nullptr))
    *place = reinterpret_cast<ncclComm_t>(communicator.smaller);
}

void RecordingNccl::State::end_work_of(const NcclRank& communicator) {
  for (const NcclRun& run : runs)
    if (std::ranges::find(run.ranks, &communicator) != run.ranks.end()) {
      if (!run.points.back()->reached) *run.ended = true;
      for (const auto& point : run.points) point->reached = true;
    }
  std::erase_if(meetings, [&](const Meeting& meeting) {  // its streams go on
    const bool held =
        std::ranges::any_of(meeting.parts, [&](const Part& p) { return p.communicator == &communicator; });
    if (held) meeting.done->reached = true;
    return held;
  });
}

void RecordingNccl::State::run_group(CudaMachine::Lock& lock, std::vector<Part> parts) {
  std::vector<std::function<void()>> later;
  while (!parts.empty()) {
    if (spans_processes(parts.front())) {
      meet(lock, parts.front(), later);
      parts.erase(parts.begin());
    } else if (is_sum(parts.front()))
      run_sum(lock, parts);
    else
      run_transfer(lock, parts);
  }
  for (const auto& wait : later) wait();
}

}  // namespace tutti::testing
