// SPDX-License-Identifier: Apache-2.0
// The mailbox, what devices call, and the deadlines. What messages do: sync_server_rounds.cpp,
// sync_server_failures.cpp.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/deadline.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operand_checks.h>
#include <tutti/backend/start_thread.h>
#include <tutti/distributed/replica_description.h>
#include <tutti/distributed/spinning_lock.h>
#include <tutti/distributed/spinning_wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace tutti {

namespace {

using Clock = CollectiveTask::Clock;
using std::chrono::milliseconds;

thread_local const DistributedSyncServer* called_back = nullptr;  // whose `warn` or `dump` this thread runs

void refuse_unknown(const SyncOptions& options) {
  using checks::require_enumerator;
  require_enumerator("sync", "GradientReduction", options.reduction, GradientReduction::weighted_mean);
  require_enumerator("sync", "Absent", options.absent, Absent::subset);
  require_enumerator("sync", "Overlap", options.overlap, Overlap::in_backward);
  require_enumerator("sync", "BufferPolicy", options.buffers, BufferPolicy::synchronised);
  require_enumerator("sync", "GradientWire", options.wire, GradientWire::f16);
  require_enumerator("sync", "Sharding", options.sharding, Sharding::gradients);
}

SyncOptions with_defaults(SyncOptions options) {
  refuse_unknown(options);
  constexpr std::size_t kMostEvents = std::size_t{1} << 20U;  // 32 MiB
  options.warn_after = bounded_wait<SyncError>("sync, warn_after", options.warn_after, milliseconds(1));
  options.fail_after = bounded_wait<SyncError>("sync, fail_after", options.fail_after, milliseconds(1));
  if (options.recorded_events > kMostEvents)
    raise<SyncError>("[sync] recorded_events is {}: at most {} can be kept", options.recorded_events, kMostEvents);
  if (options.compression && options.absent == Absent::subset)
    raise<SyncError>(
        "[sync] compression needs Absent::zero: under Absent::subset what it keeps of a gradient could not reach the "
        "devices that did not require it");
  if (options.sharding != Sharding::none && options.absent == Absent::subset)
    raise<SyncError>(
        "[sync] sharding cannot be combined with Absent::subset: devices would disagree on what to update");
  if (options.sharding != Sharding::none && options.overlap != Overlap::immediate)
    raise<SyncError>(
        "[sync] sharding needs Overlap::immediate: gathered parameters would meet the next step's backward");
  if (options.sharding == Sharding::gradients && (options.compression || options.wire != GradientWire::native))
    raise<SyncError>("[sync] Sharding::gradients scatters gradients as they are: without compression, wire native");
  if (!options.warn) options.warn = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  if (const char* path = std::getenv("TUTTI_SYNC_DUMP"); !options.dump && path != nullptr && *path != '\0')
    options.dump = [path = std::string(path)](const std::string& text) {
      if (!append_to_file(path, text)) raise<SyncError>("[sync] cannot write the last events to {}", path);
    };
  return options;
}

}  // namespace

DistributedSyncServer::DistributedSyncServer(std::vector<Device> devices, std::unique_ptr<Communicator> communicator,
                                             SyncOptions options)
    : devices_(std::move(devices)),
      options_(with_defaults(std::move(options))),
      communicator_(std::move(communicator)),
      registered_(devices_.size()),
      busy_(devices_.size()),
      joiners_(devices_.size()),
      unfetched_(devices_.size()),
      followers_(devices_.size()),
      replica_check_(devices_.size()),
      follows_(devices_.size(), false),
      collectives_(devices_.size()),
      recorder_(devices_.size(), options_.recorded_steps, options_.recorded_events) {
  deadline_thread_ = start_thread<SyncError>("sync", [this] { watch_deadlines(); });
}

DistributedSyncServer::~DistributedSyncServer() {
  close();
  stop_watching();
}

void DistributedSyncServer::stop_watching() {
  if (!deadline_thread_.joinable()) return;
  {
    const std::lock_guard lock(deadline_mutex_);
    stopping_ = true;
  }
  deadline_condition_.notify_one();
  deadline_thread_.join();
}

void DistributedSyncServer::declare_buffers(MemberIndex member, std::vector<SyncParameter> declared) {
  const std::lock_guard lock(state_mutex_);
  if (buffers_declared_by_)
    return refuse_difference("buffer", {devices_[member], declared},
                             {devices_[*buffers_declared_by_], buffer_descriptions_});
  buffers_declared_by_ = member;
  buffer_descriptions_ = std::move(declared);
}

// Each group anew: before its first step devices may attach more.
void DistributedSyncServer::declare_updates(MemberIndex member, std::uint64_t group, std::vector<bool> updated) {
  const std::lock_guard lock(state_mutex_);
  if (group < updates_.group) return;  // a follower's: the others have formed the next
  if (group > updates_.group) updates_ = {group, member, updated};
  const auto [mine, other] = std::ranges::mismatch(updated, updates_.updated);
  if (mine == updated.end() || other == updates_.updated.end()) return;
  raise<SyncError>(
      "[sync] parameter \"{}\" has an optimizer on {} and none on {}: attach the same optimizers on every device",
      parameters_[static_cast<std::size_t>(mine - updated.begin())].name,
      to_string(devices_[*mine ? member : updates_.by]), to_string(devices_[*mine ? updates_.by : member]));
}

std::shared_ptr<const GradientLayout> DistributedSyncServer::layout() const {
  const std::lock_guard lock(state_mutex_);
  return layout_;
}

bool DistributedSyncServer::has_replicas() const {
  const std::lock_guard lock(state_mutex_);
  return !parameters_.empty() || !buffer_descriptions_.empty();
}

// --- mailbox

// Whoever finds nobody draining drains: an uncontended message is processed by its sender, without a hand-over.
void DistributedSyncServer::post(SyncMessage message) {
  bool drains = false;
  {
    const auto lock = lock_spinning(mailbox_mutex_);
    drains = !std::exchange(draining_, true);
    if (!drains) queue_.push_back(std::move(message));
  }
  if (drains) drain(message);
}

// Then it does its share of what has been launched.
void DistributedSyncServer::post(SyncMessage message, MemberIndex member) {
  post(std::move(message));
  communicator_->help(devices_[member]);
}

void DistributedSyncServer::drain(SyncMessage& message) {
  process(message);
  while (true) {
    batch_.clear();
    {
      const auto lock = lock_spinning(mailbox_mutex_);
      if (queue_.empty()) {
        draining_ = false;
        return;
      }
      batch_.swap(queue_);
    }
    for (SyncMessage& next : batch_) process(next);
  }
}

void DistributedSyncServer::await(const Answered& waiter, MemberIndex member) {
  spin_until([&] {
    if (waiter.done()) return true;
    communicator_->help_all(devices_[member]);
    return waiter.done();
  });
  waiter.wait();
}

// --- what devices call

void DistributedSyncServer::check_alive() const {
  if (!failed_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(state_mutex_);
  if (group_error_) std::rethrow_exception(group_error_);
}

void DistributedSyncServer::register_parameters(Stamp stamp, double weight, std::shared_ptr<const RequiredSet> required,
                                                std::shared_ptr<const GradientArena> arena, Event arena_free,
                                                bool passes_on) {
  check_alive();
  registered_[stamp.member].arena = arena;
  post(RegisterSyncParameters{stamp, weight, passes_on, std::move(required), std::move(arena), std::move(arena_free),
                              Clock::now()},
       stamp.member);
}

void DistributedSyncServer::submit(Stamp stamp, ParameterId parameter, GradientRef gradient) {
  check_alive();
  SubmitGradient message{stamp, parameter, gradient.ready, nullptr, Clock::now()};
  const GradientArena* arena = registered_[stamp.member].arena.get();
  if (arena == nullptr || !arena->is_place_of(parameter, gradient.gradient) || !gradient.rows.empty())
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

void DistributedSyncServer::close() { post(Close{}); }

std::uint64_t DistributedSyncServer::group_number() const {
  const std::lock_guard lock(state_mutex_);
  return group_number_;
}

SyncReport DistributedSyncServer::report() const {
  SyncReport report;
  report.devices = devices_;
  {
    const std::lock_guard lock(state_mutex_);
    for (const SyncParameter& parameter : parameters_) report.parameters.push_back(parameter.name);
  }
  report.steps = recorder_.steps();
  return report;
}

std::string DistributedSyncServer::recent_events() const {
  const std::vector<SyncEvent> events = recorder_.events();
  const std::lock_guard lock(state_mutex_);
  return events_text(events, recorder_.start(), devices_, parameters_);
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
  if (!here())
    raise<SyncError>("[{}] the group of {} {}", operation, to_string(devices_.front()), made_.elsewhere_text());
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

// --- the server's own thread

void DistributedSyncServer::tell(std::string warning) {
  {
    const std::lock_guard lock(deadline_mutex_);
    warnings_.push_back(std::move(warning));
  }
  deadline_condition_.notify_one();
}

// Never costs the devices a wake-up. Warnings are told here, where no message is being processed, so that `warn` may
// take its time and fail the group.
void DistributedSyncServer::watch_deadlines() {
  StandstillWatch watch(std::min(options_.warn_after, options_.fail_after), options_.fail_after);
  std::unique_lock lock(deadline_mutex_);
  while (!stopping_ || !warnings_.empty()) {
    deadline_condition_.wait_for(lock, watch.period(), [this] { return stopping_ || !warnings_.empty(); });
    const Clock::time_point now = Clock::now();
    const Clock::duration stood_still = watch.look(now);
    const std::vector<std::string> warnings = std::exchange(warnings_, {});
    lock.unlock();
    for (const std::string& text : warnings) try {
        call_back(options_.warn, text);
      } catch (...) {
        // nobody fails because of what only warns
      }
    post(CheckDeadlines{now, stood_still});
    watch.skip_to(Clock::now());  // callbacks, and what else this thread did for the group, are no standstill
    lock.lock();
  }
}

}  // namespace tutti
