// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/sync_member.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/member/device_use.h>

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace tutti {

SyncMember::SyncMember(const MemberPlace& place)
    : place_(place),
      standing_(place.index),
      replica_(place),
      weight_(place.name()),
      results_(place, standing_, replica_.gradients()),
      share_(place, standing_, results_),
      poster_(place, standing_, weight_, replica_, results_),
      following_(place, standing_, replica_, results_, share_) {}

// --- the replica

void SyncMember::attach(Module& replica, const std::weak_ptr<SyncMember>& self) {
  if (replica_.is_attached()) raise<SyncError>("[sync] {} has a replica already", name());
  if (generation() > 0) raise<SyncError>("[sync] attach {} before the first step", name());
  replica_.attach(replica, identity(), self);
}

// Its updates are part of the step, so that it must be known before the first one, and stays.
void SyncMember::attach(Optimizer& optimizer, const std::weak_ptr<SyncMember>& self) {
  replica_.refuse_optimizer(optimizer);
  if (place_.in_backward()) {
    if (generation() > 0) raise<SyncError>("[attach] {} needs its optimizer before the first step", name());
    if (standing_.has_left() && server().has_others())
      raise<SyncError>("[attach] {} of several processes needs its optimizer before it leaves", name());
    results_.attach(optimizer, self);
  }
  replica_.attach(optimizer);
}

void SyncMember::require_optimizer(const char* operation) const {
  if (!place_.in_backward()) return;
  if (!results_.has_updates() && !parameters().empty())
    raise<SyncError>(
        "[{}] {} has no optimizer, which Overlap::in_backward needs: sync.attach(device, optimizer) before the first "
        "step",
        operation, name());
  replica_.require_living_optimizers(operation);
}

// --- a step

void SyncMember::begin_step(double weight) {
  if (standing_.has_left()) raise<SyncError>("[sync] {} has left: it has no more steps", name());
  if (is_open()) raise<SyncError>("[sync] {} opened a step while its step {} is still open", name(), generation());
  replica_.require("sync.step");
  require_optimizer("sync.step");
  join();
  require_alive();
  share_.join();
  if (generation() == 0) declare_beginning();
  results_.begin_step();
  replica_.gradients().turn();
  replica_.gradients().prepare(server().layout());
  results_.reset_updates();
  standing_.begin_generation();
  poster_.begin_step();
  thread().enter(DeviceThread::Phase::open, generation());
  weight_.begin_step();
  require_weight("sync", weight);
}

// What training begins with has to be the same on all devices: here, and in other processes.
void SyncMember::declare_beginning() {
  results_.declare_updates(group_number());
  if (!server().has_others()) return;
  ReplicaDigest beginning = replica_.digest();
  for (NamedDigest& value : beginning) value.name = "the first value of " + value.name;
  const std::vector<bool> updated = results_.updated();
  for (std::size_t id = 0; id < updated.size(); ++id)
    beginning.push_back({fmt::format("whether Overlap::in_backward updates parameter \"{}\"", parameters()[id].first),
                         {.first = updated[id]}});
  server().declare_values(std::move(beginning));
}

// A step that cannot be taken has failed: an optimizer step after it would count it.
void SyncMember::require_alive() {
  try {
    server().check_alive();
  } catch (...) {
    results_.set_failure(std::current_exception());
    throw;
  }
}

// The others hear of it at once: they wait for a step that this device will not take.
void SyncMember::require_weight(std::string_view operation, double weight) {
  if (weight >= 0.0 && weight <= std::numeric_limits<double>::max()) return;
  const SyncError error(fmt::format("[{}] weight {} of {} is not a finite number >= 0", operation, weight, name()));
  if (is_open()) fail(std::make_exception_ptr(error));
  throw error;
}

void SyncMember::begin_accumulation() {
  if (place_.in_backward())
    raise<SyncError>(
        "[no_sync] {} cannot accumulate with Overlap::in_backward: each backward's gradients are used at once", name());
  if (!is_open())
    raise<SyncError>("[no_sync] step {} of {} has had its synchronised backward: accumulate before it", generation(),
                     name());
  if (poster_.has_registered())
    raise<SyncError>("[no_sync] opened in the synchronised backward of step {} of {}: accumulate before it",
                     generation(), name());
  replica_.gradients().prepare(server().layout());
  weight_.open_scope();
}

void SyncMember::end_accumulation(double weight, const char* flaw, bool counts) noexcept {
  weight_.close_scope(weight, flaw, counts);
}

void SyncMember::backward(double weight, BackwardOptions options,
                          const std::function<void(const BackwardOptions&)>& run) {
  if (!is_open())
    raise<SyncError>("[sync] step {} of {} has had its synchronised backward: open the next step", generation(),
                     name());
  weight_.require_sound(generation());
  if (options.create_graph)
    raise<AutodiffError>(
        "[step.backward] create_graph cannot be combined with synchronisation: use grad(), whose "
        "gradients are local and differentiable");
  weight_.add(weight);
  options.weight = root_weight(weight);
  options.observer = &poster_;
  options.owner = identity();
  run(options);
}

// Exactly 0 sends null gradients; an unweighted reduction counts devices, not examples. Where nothing is reduced,
// nothing divides by the weights either.
double SyncMember::root_weight(double weight) const {
  const bool scaled = weighted() && server().communicator().enabled();
  return scaled || weight == 0.0 ? weight : 1.0;
}

void SyncMember::synchronize() {
  if (!is_open()) raise<SyncError>("[sync] step {} of {} is posted already", generation(), name());
  weight_.require_sound(generation());
  poster_.post_without_loss();
}

// Every look at a gradient comes here, perhaps in a thread that should not: until there is something to join, only what
// is atomic is read.
void SyncMember::join() {
  if (!results_.may_join()) {
    // Before its first step the group alone knows a failure.
    if (thread().last_driver() == 0 && !standing_.has_left()) server().check_alive();
    return;
  }
  const DeviceUse use(*this, "sync.join");
  if (thread().phase() == DeviceThread::Phase::posted && !place_.double_buffered()) {
    results_.refuse_waiting_for_posted();
    results_.finish_posted();
  }
  if (results_.failure()) std::rethrow_exception(results_.failure());
}

void SyncMember::end_step(bool unwinding, std::exception_ptr thrown) noexcept {
  if (standing_.has_left()) return;  // with the step behind it: nobody waits for this device
  if (thrown)
    fail(std::move(thrown));
  else if (unwinding)
    fail(
        std::make_exception_ptr(SyncError("its step was unwound by an exception (the step that sync.step opens for a "
                                          "function, or step.fail in a catch inside the step, tells which)")));
  else if (is_open())
    fail(std::make_exception_ptr(
        SyncError("its step ended without a synchronised backward (call step.synchronize() when there is no loss)")));
}

double SyncMember::total_weight() const {
  if (results_.joined_generation() != generation() && !place_.double_buffered())
    raise<SyncError>("[sync] the total weight of step {} is known after join", generation());
  return results_.total_weight();
}

// --- between steps

void SyncMember::refuse_check() {
  if (standing_.has_left() || is_open())
    raise<SyncError>("[sync] {} can check its replica between steps and before it leaves only", name());
  try {
    replica_.refuse_replaced();
  } catch (...) {  // the others wait for this device's answer
    fail(std::current_exception());
    throw;
  }
}

std::shared_ptr<SyncWaiter> SyncMember::check_replica() {
  refuse_check();
  join();
  server().check_alive();
  share_.join();
  auto waiter = std::make_shared<SyncWaiter>();
  ReplicaDigest held = replica_.digest();
  replica_.append_buffers(held);
  server().check_replica(standing_.stamp(generation() + 1), std::move(held), waiter);
  return waiter;
}

bool SyncMember::flush() {
  if (is_open()) raise<SyncError>("[sync] {} cannot flush inside its step {}", name(), generation());
  const bool posted = results_.is_posted();
  results_.refuse_waiting_for_posted();
  results_.finish_posted();
  if (results_.failure()) std::rethrow_exception(results_.failure());
  return posted;
}

void SyncMember::leave(bool follow) {
  if (is_open()) raise<SyncError>("[sync] {} cannot leave inside its step {}", name(), generation());
  if (follow) {
    replica_.require("sync.leave");
    require_optimizer("sync.leave");
  } else {
    share_.prepare_leaving();
  }
  if (follow && place_.options().absent == Absent::subset)
    raise<SyncError>(
        "[sync] {} cannot follow: under Absent::subset a result goes to those that took part only, so leave with "
        "Follow::no",
        name());
  results_.refuse_waiting_for_posted();
  if (place_.double_buffered() && results_.is_posted() && !results_.failure())
    raise<SyncError>("[sync] the gradients of {}'s step {} are still on their way: flush and step the optimizer first",
                     name(), generation());
  if (follow && generation() == 0) declare_beginning();
  results_.finish_posted();  // also a device whose last step failed may leave
  following_.leave(follow);
}

bool SyncMember::follow() {
  following_.require();
  replica_.require("sync.follow");
  require_optimizer("sync.follow");
  return following_.follow();
}

// --- failures, and the group after one

std::shared_ptr<SyncWaiter> SyncMember::report_failure(std::exception_ptr error) noexcept {
  return server().device_failed({index(), server().group_number(), thread().open_generation()}, error);
}

void SyncMember::refuse_rejoin() const {
  if (is_open()) raise<SyncError>("[sync] {} cannot rejoin inside its step", name());
  // For any step of another device.
  place_.threads.refuse_waiting_for_own(index(), std::numeric_limits<std::int64_t>::max());
}

std::shared_ptr<SyncWaiter> SyncMember::request_rejoin(std::int64_t last_step_applied) {
  refuse_rejoin();
  results_.finish_posted();
  share_.settle();
  return server().join_group(index(), server().group_number() + 1, last_step_applied, results_.last_applied());
}

void SyncMember::finish_rejoin(SyncWaiter& waiter) {
  waiter.wait();
  // Also of one that failed as it formed: what this device says next is of it. One that left was refused, and enters a
  // group when the others form it, or by following.
  if (!standing_.has_left()) standing_.rejoin(server().group_number());
  if (waiter.error()) std::rethrow_exception(waiter.error());
  standing_.set_generation(0);
  results_.forget();
  poster_.forget();
}

void SyncMember::restore_failed_step(const ReplicaState& state) {
  if (results_.has_updates())
    replica_.restore(state);
  else
    replica_.restore_buffers(state);
}

}  // namespace tutti
