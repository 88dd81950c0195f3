// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/step.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/member/device_use.h>
#include <tutti/distributed/threads/thread_number.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

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
      scope_(std::make_unique<LocalAccumulation>(member_->identity(),
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
    if (member_->is_current(group_, generation_)) member_->end_step(unwinding, thrown_);
  });
  if (!ended && member_->opened_last(group_, generation_) && (unwinding || member_->thread().open_in() != 0))
    member_->report_failure(
        thrown_ ? thrown_
                : std::make_exception_ptr(SyncError("its step was ended while another thread used the device")));
}

void Step::refuse_past() const {
  if (!member_->is_current(group_, generation_))
    raise<SyncError>("[sync] step {} of {} is over: a later one was opened", generation_, member_->name());
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

}  // namespace tutti
