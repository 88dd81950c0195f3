// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/gradient_sync.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_sync_use.h>
#include <tutti/distributed/make_communicator.h>
#include <tutti/distributed/thread_number.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

namespace tutti {

// --- NoSync

namespace {

/// Scopes that ended on another thread than they began on, which still has them in its list: it ends them here. Never
/// destroyed, as threads end after statics.
struct ForeignScopes {
  std::mutex mutex;  // any thread may leave one to any other
  std::vector<std::pair<std::uint64_t, std::unique_ptr<LocalAccumulation>>> scopes;  // by thread number
  std::atomic<std::size_t> count{0};                                                 // spares others the lock

  static ForeignScopes& all() {
    static ForeignScopes& instance = *new ForeignScopes;
    return instance;
  }
  void leave(std::uint64_t thread, std::unique_ptr<LocalAccumulation> scope) {
    const std::lock_guard lock(mutex);
    scopes.emplace_back(thread, std::move(scope));
    count = scopes.size();
  }
  void end_own() {
    if (count.load(std::memory_order_relaxed) == 0) return;
    const std::lock_guard lock(mutex);
    std::erase_if(scopes, [](const auto& left) { return left.first == this_thread_number(); });
    count = scopes.size();
  }
};

}  // namespace

NoSync::NoSync(std::shared_ptr<SyncMember> member, double weight)
    : member_(std::move(member)),
      weight_(weight),
      group_(member_->group_number()),
      generation_(member_->generation()),
      thread_(this_thread_number()),
      scope_(std::make_unique<LocalAccumulation>(member_->group_identity(),
                                                 member_->weighted() || weight == 0.0 ? weight : 1.0)) {
  member_->begin_accumulation();
}

NoSync::~NoSync() {
  const bool foreign = thread_ != this_thread_number();
  const double weight = !foreign && scope_->used() ? weight_ : 0.0;
  const char* flaw = foreign                   ? "a no_sync scope ended on another thread than it began on"
                     : scope_->failed_midway() ? "a backward under no_sync failed midway"
                                               : nullptr;
  if (foreign) ForeignScopes::all().leave(thread_, std::move(scope_));
  member_->end_accumulation(weight, flaw, member_->opened_last(group_, generation_));
}

// --- Step

Step::Step(std::shared_ptr<SyncMember> member, double weight)
    : member_(std::move(member)), weight_(weight), exceptions_at_start_(std::uncaught_exceptions()) {
  ForeignScopes::all().end_own();
  member_->begin_step(weight);
  group_ = member_->group_number();
  generation_ = member_->generation();
}

Step::Step(Step&&) noexcept = default;

// A step that another one has replaced was over before that one could begin.
Step::~Step() {
  if (member_ == nullptr || !member_->server().here()) return;
  const bool unwinding = std::uncaught_exceptions() > exceptions_at_start_;
  const bool ended = DeviceUse::try_with(*member_, [&] {
    if (member_->is_current(group_, generation_)) member_->end_step(unwinding);
  });
  if (!ended && member_->opened_last(group_, generation_) && (unwinding || member_->open_in_thread() != 0))
    member_->report_failure(
        std::make_exception_ptr(SyncError("its step was ended while another thread used the device")));
}

void Step::refuse_past() const {
  if (!member_->is_current(group_, generation_))
    raise<SyncError>("[sync] step {} of {} is over: a later one was opened", generation_, to_string(member_->device()));
}

NoSync Step::no_sync() { return no_sync(weight_); }

NoSync Step::no_sync(double weight) {
  const DeviceUse use(*member_, "no_sync");
  refuse_past();
  use->require_weight("no_sync", weight);
  ForeignScopes::all().end_own();
  return NoSync(member_, weight);
}

void Step::set_weight(double weight) {
  const DeviceUse use(*member_, "step.set_weight");
  refuse_past();
  use->require_weight("sync", weight);
  weight_ = weight;
}

void Step::backward(const Tensor& loss, const BackwardOptions& options) {
  backward_async(loss, options);
  join();
}

void Step::backward_async(const Tensor& loss, const BackwardOptions& options) {
  const DeviceUse use(*member_, "step.backward");
  refuse_past();
  use->backward(weight_, options, [&](const BackwardOptions& observed) { tutti::backward(loss, observed); });
}

void Step::backward_by(const std::function<void(const BackwardOptions&)>& run) {
  const DeviceUse use(*member_, "step.backward");
  refuse_past();
  use->backward(weight_, {}, run);
}

double Step::root_weight() const {
  refuse_past();
  return member_->root_weight(weight_);
}

Device Step::device() const noexcept { return member_->device(); }

void Step::synchronize() {
  synchronize_async();
  join();
}

void Step::synchronize_async() {
  const DeviceUse use(*member_, "step.synchronize");
  refuse_past();
  use->synchronize();
}

void Step::join() {
  const DeviceUse use(*member_, "step.join");
  refuse_past();
  use->join();
}

std::int64_t Step::generation() const noexcept { return generation_; }

double Step::total_weight() const {
  refuse_past();
  return member_->total_weight();
}

void Step::fail(std::exception_ptr error) {
  const DeviceUse use(*member_, "step.fail");
  refuse_past();
  use->fail(std::move(error));
}

void join_all(std::span<Step*> steps) {
  std::exception_ptr first;
  for (Step* step : steps) try {
      step->join();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  if (first) std::rethrow_exception(first);
}

// --- GradientSync

class GradientSync::State {
 public:
  State(std::vector<Device> devices, const SyncOptions& options, std::unique_ptr<Communicator> engine)
      : devices_(std::move(devices)),
        server_(devices_, engine ? std::move(engine) : make_communicator(devices_, options.fail_after), options) {
    for (MemberIndex index = 0; index < devices_.size(); ++index)
      members_.push_back(std::make_shared<SyncMember>(server_, index, devices_[index]));
    std::vector<const SyncMember*> peers;
    for (const auto& member : members_) peers.push_back(member.get());
    for (const auto& member : members_) member->set_peers(peers);
    collectives_ = std::make_shared<Collectives>(server_, members_);
    server_.on_reformed([this](const DistributedSyncServer::Reformation& reform) { return continue_from(reform); });
  }

  // Runs while every member that has not left waits in rejoin, so that replicas may be written from one thread.
  std::shared_ptr<const ReplicaState> continue_from(const DistributedSyncServer::Reformation& reform) {
    for (const MemberIndex index : reform.left)
      if (!members_[index]->share().kept()) members_[index]->enter_group(reform.group);
    refuse_lost_shares(reform.behind);
    const MemberIndex source = whole_replica(reform);
    std::shared_ptr<const ReplicaState> state = members_[source]->capture();
    for (const MemberIndex index : reform.behind) members_[index]->restore(*state);
    if (source != reform.ahead) members_[reform.ahead]->restore(*state);
    for (const MemberIndex index : reform.level)
      if (index == source)
        continue;
      else if (members_[index]->torn())
        members_[index]->restore(*state);
      else
        members_[index]->restore_failed_step(*state);
    return state;
  }

  // Of those that have applied as many steps as anybody.
  MemberIndex whole_replica(const DistributedSyncServer::Reformation& reform) const {
    if (!members_[reform.ahead]->torn()) return reform.ahead;
    for (const MemberIndex index : reform.level)
      if (!members_[index]->torn()) return index;
    raise<SyncError>(
        "[rejoin] the optimizer step of {} threw midway, or its optimizer is gone, and no other device has applied as "
        "many steps: load one "
        "checkpoint's parameters and optimizer state on every device",
        to_string(devices_[reform.ahead]));
  }

  // Nobody else has a share's optimizer state.
  void refuse_lost_shares(std::span<const MemberIndex> behind) const {
    for (const auto& member : members_) {
      if (!member->share().whole()) {
        for (const auto& other : members_) other->share().require_load();  // nobody goes on with another's checkpoint
        raise<SyncError>("[rejoin] {}", member->share().torn_text(member->device()));
      }
      if (member->share().kept() && !behind.empty())
        raise<SyncError>(
            "[rejoin] {} is behind other devices, which do not have the optimizer state of its share: load one "
            "checkpoint on every device, then rejoin with equal steps",
            to_string(devices_[behind.front()]));
    }
  }

  // In a child process nothing of it can end, nor can its thread, which runs `warn`, wait for itself: then it stays,
  // where leak checkers see it.
  static void end(State* state) {
    static std::mutex mutex;  // of groups that end in their callbacks at the same time
    static std::vector<State*>& left = *new std::vector<State*>;
    if (state->server_.here() && !state->server_.in_callback()) {
      delete state;
    } else {
      const std::lock_guard lock(mutex);
      left.push_back(state);
    }
  }

  const std::vector<Device> devices_;
  DistributedSyncServer server_;
  std::vector<std::shared_ptr<SyncMember>> members_;
  std::shared_ptr<Collectives> collectives_;
};

namespace {

std::vector<Device> checked(std::vector<Device> devices) {
  if (devices.empty()) raise<SyncError>("[sync] a group needs at least one device");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    backend_for(devices[i]).check(devices[i]);
    if (std::find(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i), devices[i]) !=
        devices.begin() + static_cast<std::ptrdiff_t>(i))
      raise<SyncError>("[sync] {} is listed twice", to_string(devices[i]));
  }
  return devices;
}

}  // namespace

GradientSync::GradientSync(std::vector<Device> devices, SyncOptions options)
    : GradientSync(std::move(devices), std::move(options), nullptr) {}

GradientSync::GradientSync(std::vector<Device> devices, SyncOptions options, std::unique_ptr<Communicator> engine)
    : state_(new State(checked(std::move(devices)), options, std::move(engine)), &State::end) {
  for (const Device device : state_->devices_) member(device)->set_self(member(device));
  state_->collectives_->set_self(collectives());
}

GradientSync::~GradientSync() {
  if (!state_->server_.here()) return;
  close();
  if (!state_->server_.in_callback()) state_->server_.stop_watching();  // `warn` may use this object until then
}
void GradientSync::close() { state("sync.close").server_.close(); }

GradientSync::State& GradientSync::state(std::string_view operation) const {
  state_->server_.refuse_elsewhere(operation);
  return *state_;
}

// It keeps the whole group alive.
std::shared_ptr<SyncMember> GradientSync::member(Device device) const {
  const auto found = std::find(state_->devices_.begin(), state_->devices_.end(), device);
  if (found == state_->devices_.end()) raise<SyncError>("[sync] {} is not in this group", to_string(device));
  return {state_, state_->members_[static_cast<std::size_t>(found - state_->devices_.begin())].get()};
}

std::shared_ptr<Collectives> GradientSync::collectives() const { return {state_, state_->collectives_.get()}; }

void GradientSync::attach(Device device, Module& replica) { DeviceUse(*member(device), "attach")->attach(replica); }
void GradientSync::attach(Device device, Optimizer& optimizer) {
  DeviceUse(*member(device), "attach")->attach(optimizer);
}
const std::vector<Device>& GradientSync::devices() const noexcept { return state_->devices_; }
Step GradientSync::step(Device device, double weight) {
  const auto self = member(device);
  const DeviceUse use(*self, "sync.step");
  return {self, weight};
}
bool GradientSync::flush(Device device) { return DeviceUse(*member(device), "sync.flush")->flush(); }
void GradientSync::leave(Device device, Follow follow) {
  DeviceUse(*member(device), "sync.leave")->leave(follow == Follow::yes);
}
bool GradientSync::follow(Device device) { return DeviceUse(*member(device), "sync.follow")->follow(); }
void GradientSync::check_consistency(std::span<const Device> devices) {
  std::vector<std::shared_ptr<SyncWaiter>> waiters;
  {
    std::deque<DeviceUse> uses;  // a second check while this one waits is refused, and harms nobody
    for (const Device device : devices) uses.emplace_back(*member(device), "sync.check_consistency");
    for (const DeviceUse& use : uses) use->refuse_check();  // before any other asks
    for (const DeviceUse& use : uses) waiters.push_back(use->check_replica());
  }
  for (std::size_t i = 0; i < waiters.size(); ++i) {
    member(devices[i])->await(*waiters[i]);
    if (waiters[i]->error()) std::rethrow_exception(waiters[i]->error());
  }
}

void GradientSync::fail(Device device, std::exception_ptr error) {
  const auto self = member(device);
  state("sync.fail");
  const std::uint64_t driver = self->last_driver();
  if (driver == this_thread_number() && DeviceUse::try_with(*self, [&] { self->fail(error); })) return;
  // Another thread than the device's own only tells the group: the device hears of it at its next call. Before its
  // first step this may be its own thread, which may rejoin next: once the group knows.
  const auto told = self->report_failure(error);
  if (driver == 0 && self->server().here() && !DistributedSyncServer::in_any_callback()) told->wait();
}
void GradientSync::busy(Device device, std::string activity) {
  state("sync.busy").server_.set_busy(member(device)->index(), std::move(activity));
}

void GradientSync::rejoin(Device device, std::int64_t last_step_applied) {
  const Rejoining one[] = {{device, last_step_applied}};
  rejoin_all(one);
}

void GradientSync::rejoin_all(std::span<const Rejoining> all) {
  std::vector<std::pair<std::shared_ptr<SyncMember>, std::shared_ptr<SyncWaiter>>> asked;
  std::deque<DeviceUse> uses;
  for (const Rejoining& one : all) uses.emplace_back(*member(one.device), "sync.rejoin");
  for (const Rejoining& one : all) member(one.device)->refuse_rejoin();  // before any other has joined
  for (const Rejoining& one : all) {
    const auto self = member(one.device);
    asked.emplace_back(self, self->request_rejoin(one.last_step_applied));
  }
  std::exception_ptr first;
  for (const auto& [self, waiter] : asked) try {
      self->finish_rejoin(*waiter);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  if (first) std::rethrow_exception(first);
}

DistributedSyncServer& GradientSync::server() noexcept { return state_->server_; }
PendingTensor GradientSync::all_reduce(Device device, const Tensor& tensor, CollectiveOperation operation) {
  return state_->collectives_->post(device, {.kind = CollectiveKind::all_reduce, .operation = operation}, tensor);
}
PendingTensor GradientSync::reduce_scatter(Device device, const Tensor& tensor, CollectiveOperation operation,
                                           std::vector<std::int64_t> parts) {
  return state_->collectives_->post(
      device, {.kind = CollectiveKind::reduce_scatter, .operation = operation, .lengths = std::move(parts)}, tensor);
}
PendingTensor GradientSync::all_gather(Device device, const Tensor& tensor) {
  return state_->collectives_->post(device, {.kind = CollectiveKind::all_gather}, tensor);
}
PendingTensor GradientSync::broadcast(Device device, const Tensor& tensor, Member root) {
  return state_->collectives_->post(device, {.kind = CollectiveKind::broadcast, .root = root}, tensor);
}
PendingTensor GradientSync::all_to_all(Device device, const Tensor& tensor, std::vector<std::int64_t> parts) {
  return state_->collectives_->post(device, {.kind = CollectiveKind::all_to_all, .lengths = std::move(parts)}, tensor);
}
void GradientSync::barrier(Device device) {
  state_->collectives_->post(device, {.kind = CollectiveKind::barrier}, {}).resolve();
}

std::uint64_t GradientSync::group_number() const { return state("sync.group_number").server_.group_number(); }
SyncReport GradientSync::report() const { return state("sync.report").server_.report(); }
std::string GradientSync::recent_events() const { return state("sync.recent_events").server_.recent_events(); }
void GradientSync::set_reductions_enabled(bool enabled) {
  state("sync.set_reductions_enabled").server_.communicator().set_enabled(enabled);
}

}  // namespace tutti
