// SPDX-License-Identifier: Apache-2.0
// What the other processes of a group say, and what they are told. Everything here runs while messages are processed.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/error.h>

#include <fmt/format.h>

#include <utility>

namespace tutti {

void DistributedSyncServer::listen_to_others() {
  others_->open(
      {.said = [this](std::vector<ProcessLink::Bytes> by_rank) { post(ProcessesSaid{std::move(by_rank)}); },
       .ended = [this](const ProcessLink::End& end) { post(std::make_unique<ProcessEnded>(ProcessEnded{end})); }});
}

bool DistributedSyncServer::all_left_here() const {
  for (MemberIndex member = 0; member < members_.size(); ++member)
    if (!ledger_->has_left(member)) return false;
  return true;
}

// All that gradients depend on, beside the required sets.
std::string DistributedSyncServer::description() const {
  std::string text = fmt::format("{} {} {} {}", static_cast<int>(options_.reduction), static_cast<int>(options_.absent),
                                 static_cast<int>(options_.wire), options_.bucket_bytes);
  for (const SyncParameter& parameter : replicas_.parameters())
    text += fmt::format("; {} {} {}", parameter.name, to_string(parameter.shape), to_string(parameter.dtype));
  return text;
}

// A release that comes with it may have failed the group.
void DistributedSyncServer::perform(const Agree& agree) {
  if (ledger_->fault()) return;
  if (!others_->is_described()) others_->describe(replicas_.parameters().size(), description(), values_.load());
  others_->ask(agree);
}

void DistributedSyncServer::handle(ProcessesSaid& message) {
  if (ledger_->fault()) return;
  const auto answer = others_->hear(message.by_rank);
  const std::int64_t generation = ledger_->current_generation();
  if (const auto* agreement = std::get_if<std::shared_ptr<const Agreement>>(&answer))
    ledger_->agreed(ledger_->group(), generation, *agreement, actions_);
  else if (std::holds_alternative<OtherProcesses::Committed>(answer))
    ledger_->committed(ledger_->group(), generation, actions_);
}

void DistributedSyncServer::handle(RoundReduced& message) {
  if (ledger_->fault() || !is_current(message.group)) return;
  if (message.error)
    return fail_group({.kind = Fault::Kind::reduction_failed, .generation = message.generation}, message.error);
  ledger_->committed(message.group, message.generation, actions_);
}

void DistributedSyncServer::handle(std::unique_ptr<ProcessEnded>& message) {
  others_->note(std::move(message->end));
  end_with_others(false);
}

// What that process has completed, this one completes, too, before it fails. One that has closed its group is missed
// only in a step that it is not in.
void DistributedSyncServer::end_with_others(bool step_begins) {
  if (!others_ || ledger_->fault() || ledger_->all_left()) return;
  const std::int64_t generation = ledger_->current_generation();
  const ProcessLink::End* const end = others_->ended_before(generation);
  if (!end) return;
  if (end->closed && !step_begins) {
    const Missing missing = ledger_->missing();
    if (!missing.agreement && !missing.commit && missing.syncs.empty()) return;
  }
  fail_group({.kind = Fault::Kind::process_failed, .generation = generation, .value = end->rank}, nullptr,
             end->closed ? fmt::format("[sync] rank {} has closed its group after generation {}, this process is in {}",
                                       end->rank, end->completed, generation)
                         : end->text);
}

// Who has launched nothing of this round ends nothing: others may still finish the round that is complete here.
void DistributedSyncServer::tell_others(const Fault& fault, const std::string& text) {
  if (!round_.result->reduced.empty()) communicator_->abort(text);
  others_->end(text, ledger_->current_generation() - 1, fault.kind == Fault::Kind::closed);
}

void DistributedSyncServer::handle(AwaitOthers& message) { leaving_ = std::move(message.waiter); }

void DistributedSyncServer::answer_when_over() {
  if (!leaving_ || (ledger_ && all_left_here() && !ledger_->all_left() && !ledger_->fault())) return;
  std::exchange(leaving_, nullptr)->release(nullptr);
}

}  // namespace tutti
