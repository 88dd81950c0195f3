// SPDX-License-Identifier: Apache-2.0
// Users' own collectives: number k of all devices is matched, checked and launched. All but post_collective runs while
// the mailbox is drained, so that a collective keeps its place between the gradients' reductions, and fails with them.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/error.h>

#include <algorithm>
#include <utility>

namespace tutti {

std::shared_ptr<CollectiveWaiter> DistributedSyncServer::post_collective(PostCollective message) {
  auto waiter = std::make_shared<CollectiveWaiter>();
  message.waiter = waiter;
  message.at = CollectiveTask::Clock::now();
  const MemberIndex member = message.member;
  post(std::make_unique<PostCollective>(std::move(message)), member);
  return waiter;
}

// Nobody is left without an answer: what cannot be matched any more is answered here, the rest waits in collectives_,
// which fail_collectives answers. The ledger may not be open yet: groups without a model have collectives too.
void DistributedSyncServer::handle(std::unique_ptr<PostCollective>& posted) {
  PostCollective& message = *posted;
  const bool alive = !ledger_ ? message.group == 1 : message.group == ledger_->group() && !ledger_->fault();
  if (!alive) return message.waiter->release(nullptr, error_for(message.group));
  const MemberIndex member = message.member;
  collectives_[member].push_back(std::move(message));
  if (refuse_misfit(collectives_[member].back())) return;
  if (std::ranges::any_of(collectives_, [](const auto& queue) { return queue.empty(); })) return;
  if (collectives_.front().front().call.kind == CollectiveKind::gather_in_place)
    launch_gather();
  else
    launch_collective();
}

// On arrival, so that a mismatch is found before the last device has posted.
bool DistributedSyncServer::refuse_misfit(const PostCollective& message) {
  const auto due = collectives_done_ + static_cast<std::int64_t>(collectives_[message.member].size());
  Fault fault{.kind = Fault::Kind::collective, .member = message.member};
  if (message.number != due) {
    fail_group(fault, nullptr,
               fmt::format("[sync] {} posted collective {} while {} was due", to_string(devices_[message.member]),
                           message.number, due));
    return true;
  }
  const auto place = collectives_[message.member].size() - 1;
  for (MemberIndex member = 0; member < devices_.size(); ++member) {
    if (collectives_[member].size() <= place) continue;
    const PostCollective& other = collectives_[member][place];
    if (agree(message.call, other.call)) continue;
    fail_group(fault, nullptr,
               fmt::format("[sync] collective {} is {} on {} and {} on {}", message.number, to_string(other.call),
                           to_string(devices_[member]), to_string(message.call), to_string(devices_[message.member])));
    return true;
  }
  return false;
}

// The posts leave the queues only when nothing can throw any more: an exception fails the group with all of them.
void DistributedSyncServer::launch_collective() {
  std::vector<CollectiveCall> calls;
  calls.reserve(devices_.size());
  for (const auto& posted : collectives_) calls.push_back(posted.front().call);
  const CollectivePlan plan = plan_collective(calls, devices_);
  CollectiveRequest request;
  request.operation = calls.front().operation;
  request.name = fmt::format("collective {} ({})", collectives_.front().front().number, to_string(calls.front()));
  request.parts = plan.parts;
  CollectiveResult common;
  std::vector<std::shared_ptr<CollectiveResult>> results;
  for (MemberIndex member = 0; member < devices_.size(); ++member) {
    const PostCollective& posted = collectives_[member].front();
    results.push_back(std::make_shared<CollectiveResult>());
    common.differentiable |= posted.differentiable;
    if (plan.outputs.empty()) continue;
    results[member]->output = Array::empty(plan.outputs[member], calls[member].dtype, devices_[member]);
    request.inputs.push_back(posted.input);
    request.outputs.push_back(results[member]->output);
    request.ready.push_back(posted.ready);
    if (!plan.received.empty()) results[member]->received = plan.received[member];
  }
  if (!plan.outputs.empty()) common.task = communicator_->collective(std::move(request));
  for (const auto& result : results) {
    result->task = common.task;
    result->differentiable = common.differentiable;
  }
  answer_collective(std::move(results));
}

void DistributedSyncServer::answer_collective(std::vector<std::shared_ptr<CollectiveResult>> results) {
  ++collectives_done_;
  collective_warned_ = false;
  for (MemberIndex member = 0; member < devices_.size(); ++member) {
    const auto waiter = std::move(collectives_[member].front().waiter);
    collectives_[member].pop_front();
    waiter->release(std::move(results[member]));
  }
}

void DistributedSyncServer::fail_collectives(const std::exception_ptr& error) {
  for (auto& posted : collectives_) {
    for (const PostCollective& message : posted) message.waiter->release(nullptr, error);
    posted.clear();
  }
  collectives_done_ = 0;  // the next group counts anew
  collective_warned_ = false;
}

// --- deadlines

void DistributedSyncServer::check_collective_deadline(CollectiveTask::Clock::time_point now) {
  auto waited = CollectiveTask::Clock::duration::zero();
  for (const auto& posted : collectives_)
    if (!posted.empty()) waited = std::max(waited, now - std::max(posted.front().at, running_since_));
  if (waited < std::min(options_.warn_after, options_.fail_after)) return;
  const std::string text = missing_collective_text(waited);
  if (waited >= options_.fail_after) return fail_group({.kind = Fault::Kind::deadline}, nullptr, text);
  if (!std::exchange(collective_warned_, true)) tell(text);
}

std::string DistributedSyncServer::missing_collective_text(CollectiveTask::Clock::duration waited) const {
  std::string missing;
  const PostCollective* first = nullptr;
  for (MemberIndex member = 0; member < devices_.size(); ++member) {
    if (!collectives_[member].empty()) {
      if (first == nullptr) first = &collectives_[member].front();
      continue;
    }
    const bool left = ledger_ && ledger_->has_left(member);
    missing += fmt::format("{}{}{}", missing.empty() ? "" : ", ", names().member(member), left ? " (has left)" : "");
  }
  return fmt::format("[sync] waited {:.3g} s, missing collective {} ({}) from {}",
                     std::chrono::duration<double>(waited).count(), first->number, to_string(first->call), missing);
}

}  // namespace tutti
