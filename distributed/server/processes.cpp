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

// All that gradients depend on, beside the required sets.
std::string DistributedSyncServer::description() const {
  std::string text = fmt::format("{} {} {} {}", static_cast<int>(options_.reduction), static_cast<int>(options_.absent),
                                 static_cast<int>(options_.wire), options_.bucket_bytes);
  for (const SyncParameter& parameter : replicas_.parameters())
    text += fmt::format("; {} {} {}", parameter.name, to_string(parameter.shape), to_string(parameter.dtype));
  return text;
}

void DistributedSyncServer::perform(const Agree& agree) {
  if (!others_->is_described()) others_->describe(replicas_.parameters().size(), description());
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
  const Missing missing = ledger_->missing();
  const bool in_step = missing.agreement || missing.commit || !missing.syncs.empty();
  if (in_step || !others_->has_closed()) end_with_others();
}

// What that process has completed, this one completes, too, before it fails. A group that another process has closed
// fails when somebody here begins a step that it is not in.
void DistributedSyncServer::end_with_others() {
  if (!others_ || ledger_->fault() || ledger_->all_left()) return;
  const std::int64_t generation = ledger_->current_generation();
  const ProcessLink::End* const end = others_->ended_before(generation);
  if (!end) return;
  fail_group({.kind = Fault::Kind::process_failed, .generation = generation, .value = end->rank}, nullptr,
             end->closed ? fmt::format("[sync] rank {} has closed its group after generation {}, this process is in {}",
                                       end->rank, end->completed, generation)
                         : end->text);
}

// Closing ends what is on its way here, and leaves alone what others still finish of a round that is complete here.
void DistributedSyncServer::tell_others(const Fault& fault, const std::string& text) {
  const bool closed = fault.kind == Fault::Kind::closed;
  if (!closed || !round_.result->reduced.empty()) communicator_->abort(text);
  others_->end(text, ledger_->current_generation() - 1, closed);
}

}  // namespace tutti
