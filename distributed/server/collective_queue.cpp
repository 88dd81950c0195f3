// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/collective_queue.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti {

std::optional<std::string> CollectiveQueue::add(PostCollective message) {
  const MemberIndex poster = message.member;
  auto& mine = posted_[poster];
  mine.push_back(std::move(message));
  const PostCollective& added = mine.back();
  const auto due = done_ + static_cast<std::int64_t>(mine.size());
  if (added.number != due)
    return fmt::format("[sync] {} posted collective {} while {} was due", members_.name(poster), added.number, due);
  const std::size_t place = mine.size() - 1;
  for (MemberIndex member = 0; member < members_.size(); ++member) {
    if (posted_[member].size() <= place) continue;
    const PostCollective& other = posted_[member][place];
    if (!agree(added.call, other.call))
      return fmt::format("[sync] collective {} is {} on {} and {} on {}", added.number, text_of(other.call),
                         members_.name(member), text_of(added.call), members_.name(poster));
  }
  return std::nullopt;
}

bool CollectiveQueue::is_empty() const {
  return std::ranges::all_of(posted_, [](const auto& posted) { return posted.empty(); });
}

bool CollectiveQueue::are_matched(std::size_t count) const {
  return std::ranges::all_of(posted_, [count](const auto& posted) { return posted.size() >= count; });
}

PostedCollective CollectiveQueue::posted_at(std::size_t place) const {
  PostedCollective posted{.number = posted_[0][place].number};
  for (const auto& posts : posted_) {
    posted.calls.push_back(posts[place].call);
    posted.differentiable |= posts[place].differentiable;
  }
  return posted;
}

std::optional<PostedCollective> CollectiveQueue::take_untold() {
  if (!are_matched(told_ + 1)) return std::nullopt;
  return posted_at(told_++);
}

void CollectiveQueue::answer(Results results) {
  ++done_;
  if (told_ > 0) --told_;
  warned_ = false;
  for (MemberIndex member = 0; member < posted_.size(); ++member) {
    const auto waiter = std::move(posted_[member].front().waiter);
    posted_[member].pop_front();
    waiter->release(std::move(results[member]));
  }
}

void CollectiveQueue::fail(const std::exception_ptr& error) {
  for (auto& posted : posted_) {
    for (const PostCollective& message : posted) message.waiter->release(nullptr, error);
    posted.clear();
  }
  done_ = 0;
  told_ = 0;
  warned_ = false;
}

std::string CollectiveQueue::next_text() const {
  const auto poster = std::ranges::find_if(posted_, [](const auto& posted) { return !posted.empty(); });
  return fmt::format("collective {} ({})", due(), text_of(poster->front().call));
}

CollectiveQueue::Clock::duration CollectiveQueue::waited(Clock::time_point now, Clock::time_point running_since) const {
  auto waited = Clock::duration::zero();
  for (const auto& posted : posted_)
    if (!posted.empty()) waited = std::max(waited, now - std::max(posted.front().at, running_since));
  return waited;
}

bool CollectiveQueue::warn_once() { return !std::exchange(warned_, true); }

std::string CollectiveQueue::missing_text(Clock::duration waited, const SyncNames& names,
                                          const std::function<bool(MemberIndex)>& has_left,
                                          std::span<const int> ranks) const {
  std::string missing;
  std::string posted;
  const auto add = [](std::string& list, const std::string& name) { list += (list.empty() ? "" : ", ") + name; };
  for (MemberIndex member = 0; member < posted_.size(); ++member)
    if (posted_[member].empty())
      add(missing, names.member(member) + (has_left(member) ? " (has left)" : ""));
    else
      add(posted, members_.name(member));
  if (missing.empty()) {
    posted.clear();
    for (int rank = 0; rank < members_.world(); ++rank)
      add(std::ranges::count(ranks, rank) > 0 ? missing : posted, fmt::format("rank {}", rank));
  }
  return fmt::format("[sync] {}waited {:.3g} s, missing {} from {}; posted by {}", names.process(),
                     std::chrono::duration<double>(waited).count(), next_text(), missing, posted);
}

namespace {

// The posts stay in the queue until nothing can throw any more: an exception fails the group with all of them.
CollectiveQueue::Results launch_combining(const CollectiveQueue& queue, const PostedCollective& all,
                                          Communicator& communicator) {
  const GroupMembers& members = queue.members();
  const CollectivePlan plan = plan_collective(all.calls, members.group());
  CollectiveRequest request;
  request.operation = all.calls.front().operation;
  request.name = fmt::format("collective {} ({})", all.number, to_string(all.calls.front(), members.world()));
  request.parts = plan.parts;
  request.inputs.resize(plan.outputs.size());
  request.outputs.resize(plan.outputs.size());
  CollectiveQueue::Results results;
  for (MemberIndex member = 0; member < members.size(); ++member) {
    const PostCollective& posted = queue.next(member);
    const std::size_t number = members.number(member);
    results.push_back(std::make_shared<CollectiveResult>());
    results[member]->differentiable = all.differentiable;
    if (plan.outputs.empty()) continue;
    results[member]->output = Array::empty(plan.outputs[number], all.calls[number].dtype, members[member].device);
    request.inputs[number] = posted.input;
    request.outputs[number] = results[member]->output;
    request.ready.push_back(posted.ready);
    if (!plan.received.empty()) results[member]->received = plan.received[number];
  }
  std::shared_ptr<CollectiveTask> task;
  if (!plan.outputs.empty()) task = communicator.collective(std::move(request));
  for (const auto& result : results) result->task = task;
  return results;
}

// In place: each share is read by its owner and written by nobody else. Arrays are numbered over all processes'
// devices.
CollectiveQueue::Results launch_gather(const CollectiveQueue& queue, Communicator& communicator,
                                       const ShardPlan& shards) {
  const GroupMembers& members = queue.members();
  const std::vector<ParameterId>& parameters = queue.next(0).parameters;
  CollectiveRequest request;
  request.inputs.resize(shards.devices() * parameters.size());
  for (MemberIndex member = 0; member < members.size(); ++member) {
    const PostCollective& message = queue.next(member);
    std::ranges::copy(message.arrays,
                      request.inputs.begin() + static_cast<std::ptrdiff_t>(members.number(member) * parameters.size()));
    request.ready.push_back(message.ready);
  }
  request.outputs = request.inputs;
  request.devices = members.devices();
  request.name = "the gathering of updated parameters";
  request.dtype = queue.next(0).call.dtype;
  for (std::size_t index = 0; index < parameters.size(); ++index)
    for (const ShardPlan::Piece& piece : shards.pieces_of(parameters[index])) {
      const auto on = [&](std::size_t number) {
        return CollectivePart::Place{number * parameters.size() + index, piece.begin, number};
      };
      CollectivePart part{piece.size(), {on(piece.owner)}, {}};
      for (std::size_t number = 0; number < shards.devices(); ++number)
        if (number != piece.owner) part.targets.push_back(on(number));
      request.parts.push_back(std::move(part));
    }
  auto result = std::make_shared<CollectiveResult>();
  result->task = communicator.collective(std::move(request));
  return CollectiveQueue::Results(members.size(), result);
}

}  // namespace

CollectiveQueue::Results launch_collective(const CollectiveQueue& queue, const PostedCollective& all,
                                           Communicator& communicator, const ShardPlan* shards) {
  if (all.calls.front().kind == CollectiveKind::gather_in_place) return launch_gather(queue, communicator, *shards);
  return launch_combining(queue, all, communicator);
}

}  // namespace tutti
