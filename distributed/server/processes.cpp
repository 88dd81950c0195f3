// SPDX-License-Identifier: Apache-2.0
// What the other processes of a group say, and what they are told. Everything here runs while messages are processed.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_compression.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

/// One number for all items, never 0.
std::uint64_t one_digest(const ReplicaDigest& items) {
  return digest_of(std::span<const NamedDigest>(items)).first | 1U;
}

}  // namespace

void DistributedSyncServer::listen_to_others() {
  others_->open(
      {.said =
           [this](ProcessLink::Line line, std::vector<ProcessLink::Bytes> by_rank) {
             post(ProcessesSaid{line, std::move(by_rank)});
           },
       .ended = [this](const ProcessLink::End& end) { post(std::make_unique<ProcessEnded>(ProcessEnded{end})); }});
}

bool DistributedSyncServer::all_left_here() const {
  for (MemberIndex member = 0; member < members_.size(); ++member)
    if (!ledger_->has_left(member)) return false;
  return true;
}

// All that gradients and buffers depend on, beside the required sets; behind it the values that training begins with.
ReplicaDigest DistributedSyncServer::model_items(const ReplicaDigest& values) const {
  ReplicaDigest items;
  const auto add = [&items](std::string name) { items.push_back({std::move(name), {}}); };
  add(fmt::format(
      "SyncOptions of reduction {}, absent {}, buffers {}, wire {}, bucket_bytes {}, consistency_every {}, "
      "sharding {}, overlap {}",
      to_string(options_.reduction), to_string(options_.absent), to_string(options_.buffers), to_string(options_.wire),
      options_.bucket_bytes, options_.consistency_every, to_string(options_.sharding), to_string(options_.overlap)));
  add("SyncOptions::compression: " + (options_.compression ? options_.compression->shared_settings() : "none"));
  const auto add_all = [&](std::string_view kind, const std::vector<SyncParameter>& declared) {
    for (const SyncParameter& each : declared)
      add(fmt::format("{} \"{}\" {} {}{}", kind, each.name, to_string(each.shape), to_string(each.dtype),
                      each.sparse ? " with sparse gradients" : ""));
  };
  add_all("parameter", replicas_.parameters());
  add_all("buffer", replicas_.buffers());
  items.insert(items.end(), values.begin(), values.end());
  return items;
}

// A release that comes with it may have failed the group.
void DistributedSyncServer::perform(const Agree& agree) {
  if (ledger_->fault()) return;
  if (!others_->is_described()) {
    const ReplicaDigest values = replicas_.values();
    others_->describe(replicas_.parameters().size(), one_digest(model_items({})),
                      values.empty() ? 0 : one_digest(values));
  }
  Agree asked = agree;
  for (MemberIndex member = 0; member < members_.size(); ++member)
    asked.registrations[member].follows = ledger_->has_left(member) && followers_.follows(member);
  others_->ask(asked);
}

void DistributedSyncServer::handle(ProcessesSaid& message) {
  if (ledger_ && ledger_->fault()) return;
  if (message.line == ProcessLink::Line::collectives) return hear_of_collective(message.by_rank);
  if (message.line == ProcessLink::Line::checks) return hear_of_replicas(message.by_rank);
  if (outside_checks_.is_searching()) return;  // the group is about to fail, before anybody steps
  const auto answer = others_->hear(message.by_rank);
  const std::int64_t generation = ledger_->current_generation();
  if (const auto* agreement = std::get_if<std::shared_ptr<const Agreement>>(&answer)) {
    round_.agreement = *agreement;
    if (refuse_lost_share(**agreement)) return;
    if (all_left_here() && round_.waiting_since) round_.waiting_since = Clock::now();  // for the reductions from now on
    ledger_->agreed(ledger_->group(), generation, *agreement, actions_);
    end_when_all_left();
  } else if (std::holds_alternative<OtherProcesses::Committed>(answer)) {
    ledger_->committed(ledger_->group(), generation, actions_);
  } else if (const auto* differs = std::get_if<OtherProcesses::ModelDiffers>(&answer)) {
    hear_of_difference(*differs);
  }
}

// Those who compare look for what differs. One that does not would disturb their search: it waits for what they find.
void DistributedSyncServer::hear_of_difference(const OtherProcesses::ModelDiffers& differs) {
  if (others_->compares())
    say_of_replicas(outside_checks_.begin(OutsideChecks::kModels, model_items(replicas_.values()), {}, differs.text));
  else if (differs.all_left)
    fail_group({.kind = Fault::Kind::process_failed, .generation = ledger_->current_generation()}, nullptr,
               differs.text);
}

// Who has left and does not follow has a share of the parameters that nobody updates. All processes see the same and
// fail alike.
bool DistributedSyncServer::refuse_lost_share(const Agreement& agreement) {
  const auto& devices = agreement.registrations;
  const auto gone = std::ranges::find_if(devices, [](const auto& device) { return device.left && !device.follows; });
  if (options_.sharding == Sharding::none || gone == devices.end() || agreement.all_left()) return false;
  const Member& member = members_.group()[static_cast<std::size_t>(gone - devices.begin())];
  const std::int64_t generation = ledger_->current_generation();
  fail_group({.kind = Fault::Kind::process_failed, .generation = generation, .value = member.rank}, nullptr,
             fmt::format("[sync] {} has left before generation {} and owns a share of the parameters: with "
                         "SyncOptions::sharding all devices of several processes leave after the same step, or with "
                         "Follow::yes",
                         to_string(member, members_.world()), generation));
  return true;
}

// A device that followed follows no more. Nobody updates its share, whose values others wait for, perhaps before they
// come to another round.
void DistributedSyncServer::refuse_end_of_following(MemberIndex member, bool unwound) {
  if (!others_ || options_.sharding == Sharding::none || ledger_->fault() || ledger_->all_left()) return;
  fail_group({.kind = Fault::Kind::process_failed,
              .generation = ledger_->current_generation(),
              .value = members_[member].rank},
             nullptr,
             fmt::format("[sync] {} {} before generation {} and owns a share of the parameters: with "
                         "SyncOptions::sharding who has left follows until all have",
                         members_.name(member),
                         unwound ? "was unwound by an exception as it followed" : "has stopped following",
                         ledger_->current_generation()));
}

void DistributedSyncServer::say_of_replicas(std::optional<ProcessLink::Bytes> words) {
  if (words) others_->say_of_replicas(*std::move(words));
}

void DistributedSyncServer::hear_of_replicas(std::span<const ProcessLink::Bytes> by_rank) {
  OutsideChecks::Outcome outcome = outside_checks_.hear(by_rank);
  const std::int64_t generation = ledger_->current_generation();
  if (outcome.difference)
    return fail_group(
        {.kind = outcome.of_models ? Fault::Kind::process_failed : Fault::Kind::diverged, .generation = generation},
        nullptr, *outcome.difference);
  if (outcome.equal) recorder_.note(SyncEvent::Kind::compared, generation);
  if (outcome.answered) {  // devices that wait for a check wait for nothing else
    round_.waiting_since.reset();
    if (followers_.any_waits()) round_.begin_wait(Clock::now());
  }
  say_of_replicas(std::move(outcome.say));
  be_silent_of_replicas();
}

// The others do not wait for a process that has nothing to compare any more.
void DistributedSyncServer::be_silent_of_replicas() {
  if (all_left_here() && outside_checks_.is_empty()) others_->compare_no_more();
}

// The parts of all processes' devices, by number.
std::vector<BufferShare> DistributedSyncServer::buffer_shares() const {
  if (!round_.agreement) return round_.buffers;
  std::vector<BufferShare> shares;
  for (const Agreement::Registration& device : round_.agreement->registrations)
    shares.push_back({.arrays = {},
                      .ready = {},
                      .reads = !device.left,
                      .examples = device.weight > 0.0,
                      .outside = !device.left || device.follows});
  std::ranges::copy(round_.buffers, shares.begin() + static_cast<std::ptrdiff_t>(members_.number(0)));
  return shares;
}

void DistributedSyncServer::tell_of_collectives() {
  end_with_others(false);
  while (const auto posted = collectives_.take_untold()) others_->tell(*posted);
}

// Its devices need not wait for it at once, nor at all, and others do.
void DistributedSyncServer::hear_of_collective(std::span<const ProcessLink::Bytes> by_rank) {
  PostedCollective posted;
  try {
    posted = posted_by_all(by_rank, members_);
  } catch (const SyncError& misfit) {
    return fail_group({.kind = Fault::Kind::collective}, nullptr, misfit.what());
  }
  auto results = launch(posted);
  if (const auto task = results.front()->task) {
    others_->note_open(task);
    others_->finish(task, Sequence::users, ledger_ && all_left_here());
  }
  collectives_.answer(std::move(results));
}

void DistributedSyncServer::handle(RoundReduced& message) {
  if (ledger_->fault() || !is_current(message.group)) return;
  if (message.error)
    return fail_group({.kind = Fault::Kind::reduction_failed, .generation = message.generation}, message.error);
  ledger_->committed(message.group, message.generation, actions_);
}

void DistributedSyncServer::handle(std::unique_ptr<ProcessEnded>& message) {
  const bool failed = !message->end.closed;
  const std::string text = message->end.text;
  others_->note(std::move(message->end));
  end_with_others(false);
  const bool over = !ledger_ || ledger_->fault() || ledger_->all_left();  // and nothing failed by it
  if (failed && over) others_->end_open([this, text] { communicator_->abort(text); });
}

// What that process has completed, this one completes, too, before it fails. One that has closed its group is missed
// only in a step that it is not in, and in a collective.
void DistributedSyncServer::end_with_others(bool step_begins) {
  if (!others_ || (ledger_ && ledger_->fault())) return;
  const std::string waiting = !collectives_.is_empty()       ? collectives_.next_text()
                              : outside_checks_.is_awaited() ? "a check of the replicas"
                                                             : "";
  if (const ProcessLink::End* const end = others_->ended(); end && !waiting.empty())
    return fail_group({.kind = Fault::Kind::process_failed, .value = end->rank}, nullptr,
                      end->closed
                          ? fmt::format("[sync] rank {} has closed its group, and {} waits for it", end->rank, waiting)
                          : incomplete_text(end->text, waiting));
  if (!ledger_ || ledger_->all_left()) return;
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
                         : incomplete_text(end->text));
}

// What is told of another process, and then what that leaves incomplete here: `waiting`, if there is such, and the
// generation, once there has been one before. A text that names a generation says enough.
std::string DistributedSyncServer::incomplete_text(const std::string& text, const std::string& waiting) const {
  if (text.find("generation ") != std::string::npos) return text;
  const std::int64_t due = ledger_ && !ledger_->all_left() ? ledger_->current_generation() : 0;
  if (waiting.empty()) return fmt::format("{}; generation {} is not completed", text, due);
  if (due <= 1) return fmt::format("{}; {} is not completed", text, waiting);
  return fmt::format("{}; {} and generation {} are not completed", text, waiting, due);
}

std::string DistributedSyncServer::with_places(std::string text) const {
  return others_ ? others_->with_places(std::move(text)) : text;
}

// Who has launched nothing of this round ends nothing: others may still finish the round that is complete here. What is
// open beside it ends soon after a failure, as those who wait for it may wait for a process that does not come any
// more; who closes the group does its share of it.
void DistributedSyncServer::tell_others(const Fault& fault, const std::string& text) {
  const bool failed = fault.kind != Fault::Kind::closed;
  if (!round_.result->reduced.empty())
    communicator_->abort(failed ? text
                                : fmt::format("[sync] {}closed its group within generation {}", names().process(),
                                              ledger_->current_generation()));
  else if (failed)
    others_->end_open([this, text] { communicator_->abort(text); });
  others_->end(text, ledger_->all_left() ? ProcessLink::End::kAll : ledger_->current_generation() - 1, !failed);
}

// Nobody follows any more.
void DistributedSyncServer::handle(AwaitOthers& message) {
  for (MemberIndex member = 0; member < members_.size(); ++member) {
    if (!followers_.follows(member)) continue;
    followers_.set(member, false);
    refuse_end_of_following(member, message.unwound);
  }
  leaving_ = std::move(message);
}

void DistributedSyncServer::answer_when_over() {
  if (!leaving_) return;
  const bool failed = ledger_ && ledger_->fault();
  const bool others_go_on = ledger_ && all_left_here() && !ledger_->all_left();
  if (!failed && (others_go_on || (collectives_.has_told() && !leaving_->unwound))) return;
  std::exchange(leaving_, std::nullopt)->waiter->release(nullptr);
}

}  // namespace tutti
