// SPDX-License-Identifier: Apache-2.0
// What devices and the group call. What their messages do: steps.cpp, failures.cpp.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/process/error_text.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/server/checked_options.h>
#include <tutti/distributed/threads/spinning_wait.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

thread_local const DistributedSyncServer* called_back = nullptr;  // whose `warn` or `dump` this thread runs

// Across processes all reduce in the layout's order, and none knows in which order others' gradients become final.
LayoutLearner::Policy layout_policy(const SyncOptions& options, bool other_processes) {
  if (options.sharding != Sharding::none) return LayoutLearner::Policy::fixed;
  if (options.overlap != Overlap::double_buffered) return LayoutLearner::Policy::follow;
  // Devices are in their next step when one is released, and a replay writes to the places it knows. What other
  // processes learn comes a step later.
  return other_processes ? LayoutLearner::Policy::fixed : LayoutLearner::Policy::learn_once;
}

}  // namespace

DistributedSyncServer::DistributedSyncServer(GroupMembers members, std::unique_ptr<Communicator> communicator,
                                             SyncOptions options, std::unique_ptr<ProcessLink> link)
    : members_(std::move(members)),
      options_(checked_options(std::move(options))),
      communicator_(std::move(communicator)),
      replicas_(members_),
      layouts_(layout_policy(options_, link != nullptr)),
      recorder_(members_.size(), options_.recorded_steps, options_.recorded_events),
      round_(members_.size()),
      launches_(members_, replicas_.parameters(), options_, *communicator_, followers_),
      followers_(members_.size()),
      joiners_(members_.size()),
      replica_check_(members_.size()),
      collectives_(members_),
      busy_(members_.size()),
      others_(link ? std::make_unique<OtherProcesses>(std::move(link)) : nullptr),
      watch_(std::min(options_.warn_after, options_.fail_after), options_.fail_after,
             {.warn = [this](const std::string& text) { call_back(options_.warn, text); },
              .check =
                  [this](const DeadlineWatch::Look& look) {
                    post(CheckDeadlines{look.now, look.running_since, look.stood_still});
                  }}) {
  if (others_) listen_to_others();
}

DistributedSyncServer::~DistributedSyncServer() {
  close();
  stop_watching();
  if (others_) others_->close();
}

// --- what replicas declare

void DistributedSyncServer::declare_parameters(MemberIndex member, std::vector<SyncParameter> declared) {
  auto waiter = std::make_shared<SyncWaiter>();
  post(std::make_unique<DeclareParameters>(DeclareParameters{member, std::move(declared), waiter}));
  waiter->wait();
  if (waiter->error()) std::rethrow_exception(waiter->error());
}

void DistributedSyncServer::declare_frozen(MemberIndex member, std::vector<SyncParameter> declared) {
  replicas_.declare_frozen(member, std::move(declared));
}

void DistributedSyncServer::declare_buffers(MemberIndex member, std::vector<SyncParameter> declared) {
  replicas_.declare_buffers(member, std::move(declared));
}

void DistributedSyncServer::declare_updates(MemberIndex member, std::uint64_t group, std::vector<bool> updated) {
  replicas_.declare_updates(member, group, std::move(updated));
}

// --- messages

void DistributedSyncServer::post(SyncMessage&& message) {
  mailbox_.post(std::move(message), [this](SyncMessage& next) { process(next); });
}

// Then it does its share of what has been launched.
void DistributedSyncServer::post(SyncMessage&& message, MemberIndex member) {
  post(std::move(message));
  if (others_) others_->poll();
  communicator_->crew().help(members_[member].device);
}

void DistributedSyncServer::help_until(const Answered& waiter, MemberIndex member) {
  Crew& crew = communicator_->crew();
  const Device device = members_[member].device;
  spin_until([&] {
    if (waiter.done()) return true;
    if (others_) others_->poll();
    crew.help_all(device);
    return waiter.done();
  });
}

// A reduction that is open may wait for what this thread does after the answer, and is not waited for.
void DistributedSyncServer::await(const Answered& waiter, MemberIndex member) {
  help_until(waiter, member);
  waiter.wait();
}

// A round is released when it is reduced over all processes.
void DistributedSyncServer::await_release(const Answered& waiter, MemberIndex member) {
  help_until(waiter, member);
  if (!others_) return waiter.wait();
  for (;;) {
    const std::uint32_t seen = news_.load(std::memory_order_acquire);
    if (waiter.done()) return;
    const auto launched = launched_.after(0);
    const auto open = std::ranges::find_if(launched, [](const auto& reduced) { return !reduced.task->finished(); });
    if (open != launched.end())
      open->task->wait();
    else if (!others_->sleep_to_hear())
      news_.wait(seen, std::memory_order_acquire);
  }
}

// --- what devices call

void DistributedSyncServer::register_parameters(Stamp stamp, double weight, std::shared_ptr<const RequiredSet> required,
                                                std::shared_ptr<const GradientArena> arena, Event arena_free,
                                                bool passes_on, Clock::time_point opened) {
  check_alive();
  post(RegisterSyncParameters{stamp, weight, passes_on, std::move(required), std::move(arena), std::move(arena_free),
                              opened, Clock::now()},
       stamp.member);
}

void DistributedSyncServer::submit(Stamp stamp, ParameterId parameter, GradientRef gradient,
                                   const GradientArena* registered) {
  check_alive();
  SubmitGradient message{stamp, parameter, gradient.ready, nullptr, Clock::now()};
  if (registered == nullptr || !registered->is_place_of(parameter, gradient.gradient) || !gradient.rows.empty())
    message.elsewhere = std::make_unique<GradientRef>(std::move(gradient));
  post(std::move(message), stamp.member);
}

std::shared_ptr<SyncWaiter> DistributedSyncServer::collective_sync(Stamp stamp, std::unique_ptr<BufferShare> buffers) {
  auto waiter = std::make_shared<SyncWaiter>();
  post(CollectiveSync{stamp, std::move(buffers), waiter, Clock::now()}, stamp.member);
  return waiter;
}

void DistributedSyncServer::check_replica(Stamp stamp, ReplicaDigest digest, std::shared_ptr<SyncWaiter> waiter) {
  post(CheckReplica{stamp, std::move(digest), std::move(waiter)});
}

void DistributedSyncServer::note_joined(Stamp stamp) { recorder_.joined(stamp.generation, stamp.member, Clock::now()); }

std::shared_ptr<CollectiveWaiter> DistributedSyncServer::post_collective(PostCollective message) {
  auto waiter = std::make_shared<CollectiveWaiter>();
  message.waiter = waiter;
  message.at = Clock::now();
  const MemberIndex member = message.member;
  post(std::make_unique<PostCollective>(std::move(message)), member);
  return waiter;
}

std::shared_ptr<SyncWaiter> DistributedSyncServer::device_failed(Stamp stamp, std::exception_ptr error,
                                                                 Fault::Kind kind) {
  auto waiter = std::make_shared<SyncWaiter>();
  post(DeviceFailed{stamp, kind, std::move(error), waiter});
  return waiter;
}

void DistributedSyncServer::leave(Stamp stamp, bool follow, std::int64_t applied) {
  post(Leave{stamp, follow, applied});
}

std::shared_ptr<SyncWaiter> DistributedSyncServer::next_result(MemberIndex member) {
  auto waiter = std::make_shared<SyncWaiter>();
  post(NextResult{member, waiter});
  return waiter;
}

std::shared_ptr<SyncWaiter> DistributedSyncServer::join_group(MemberIndex member, std::uint64_t group,
                                                              std::int64_t last_step_applied, std::int64_t applied) {
  auto waiter = std::make_shared<SyncWaiter>();
  post(JoinGroup{member, group, last_step_applied, applied, waiter});
  return waiter;
}

void DistributedSyncServer::set_busy(MemberIndex member, std::string activity) {
  post(SetBusy{member, std::move(activity)});
}

void DistributedSyncServer::close(bool unwound) { post(Close{unwound}); }

void DistributedSyncServer::cancel() { post(Cancel{}); }

void DistributedSyncServer::await_others(bool unwound) {
  if (!others_) return;
  auto waiter = std::make_shared<SyncWaiter>();
  post(AwaitOthers{waiter, unwound});
  waiter->wait();
  if (unwound) return;
  // Nothing more is launched: who closes its group then owes the others nothing.
  for (const auto& task : others_->noted()) task->wait();
}

SyncReport DistributedSyncServer::report() const {
  SyncReport report;
  report.devices.assign(members_.all().begin(), members_.all().end());
  for (const SyncParameter& parameter : replicas_.copy_of_parameters()) report.parameters.push_back(parameter.name);
  report.steps = recorder_.steps();
  return report;
}

std::string DistributedSyncServer::recent_events() const {
  const std::vector<SyncEvent> events = recorder_.events();  // first: what they tell of is declared by then
  return events_text(events, recorder_.start(), members_, replicas_.copy_of_parameters());
}

// Before the devices are told, so that whoever catches the error finds the dump complete.
void DistributedSyncServer::dump_events(const std::string& error) noexcept {
  if (!options_.dump || options_.recorded_events == 0) return;
  try {
    call_back(options_.dump, error + "\nThe last events, newest last:\n" + recent_events());
  } catch (...) {  // the failure itself is what has to be told
    tell("[sync] the last events could not be dumped: " + text_of(std::current_exception()));
  }
}

// --- what the group calls

bool DistributedSyncServer::in_callback() const noexcept { return called_back == this; }
bool DistributedSyncServer::in_any_callback() noexcept { return called_back != nullptr; }

void DistributedSyncServer::call_back(const std::function<void(const std::string&)>& callback,
                                      const std::string& text) const {
  struct Mark {
    ~Mark() { called_back = before; }
    const DistributedSyncServer* before;
  } const mark{std::exchange(called_back, this)};
  callback(text);
}

void DistributedSyncServer::refuse_elsewhere(std::string_view operation) const {
  if (!here()) raise<SyncError>("[{}] the group of {} {}", operation, members_.name(0), made_.elsewhere_text());
}

// The thread that runs `warn` is the one that watches deadlines, and all messages wait for the one that runs `dump`.
void DistributedSyncServer::refuse_where_nothing_comes(std::string_view operation) const {
  refuse_elsewhere(operation);
  if (in_callback())
    raise<SyncError>(
        "[{}] called by SyncOptions::warn or dump, which would wait for ever: they may call fail, busy, close, report "
        "and recent_events",
        operation);
}

}  // namespace tutti
