// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/gradient_sync_member.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/finite_check.h>
#include <tutti/distributed/thread_number.h>
#include <tutti/nn/hash_embedding.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace tutti {

SyncMember::SyncMember(DistributedSyncServer& server, MemberIndex index, Device device)
    : server_(server),
      index_(index),
      device_(device),
      gradients_(device, server.scatters()   ? 0
                         : double_buffered() ? 2
                                             : 1),
      buckets_(server.options().bucket_bytes) {}

SyncMember::~SyncMember() {
  updates_ = nullptr;  // the optimizer may have gone before
  finish_posted();
  if (phase_ == Phase::open) gradients_.invalidate();
}

void SyncMember::attach(Module& replica) {
  if (attached_) raise<SyncError>("[sync] {} has a replica already", to_string(device_));
  if (generation_ > 0) raise<SyncError>("[sync] attach {} before the first step", to_string(device_));
  NamedTensors parameters = replica.named_parameters();
  NamedTensors frozen;
  std::erase_if(parameters, [&](const auto& named) {
    if (!named.second.requires_grad()) frozen.push_back(named);
    return !named.second.requires_grad();
  });
  std::vector<SyncParameter> description;
  for (const auto& [name, parameter] : parameters) {
    if (parameter.device() != device_)
      raise<SyncError>("[sync] parameter \"{}\" of the replica for {} lives on {}", name, to_string(device_),
                       to_string(parameter.device()));
    if (parameter.gradient_slot().attachment)
      raise<SyncError>("[sync] parameter \"{}\" on {} belongs to a group already", name, to_string(device_));
    description.push_back({name, parameter.shape(), parameter.dtype(), parameter.has_sparse_grad()});
  }
  NamedTensors buffers = replica.named_buffers();
  std::vector<SyncParameter> buffer_description = describe_buffers(buffers);
  server_.declare_parameters(index_, std::move(description));  // first: a refusal leaves nothing declared
  server_.declare_buffers(index_, std::move(buffer_description));
  buffers_ = std::move(buffers);
  tables_ = sparse_parameters(replica);
  declare_frozen(frozen);
  gradients_.attach(std::move(parameters), this, self_);
  shown_ = ShownMembers(replica);
  frozen_ = std::move(frozen);
  attached_ = true;
}

// Without one it could not take the others' results.
void SyncMember::require_replica(const char* operation) const {
  if (!attached_ && server_.has_replicas())
    raise<SyncError>("[{}] {} has no replica: attach one before the first step, as other devices did", operation,
                     to_string(device_));
}

void SyncMember::set_phase(Phase phase) {
  phase_ = phase;
  open_generation_.store(generation_, std::memory_order_relaxed);
  if (phase == Phase::open) last_driver_.store(this_thread_number(), std::memory_order_relaxed);
  open_in_thread_.store(phase == Phase::open ? this_thread_number() : 0, std::memory_order_relaxed);
}

void SyncMember::begin_step(double weight) {
  if (left_) raise<SyncError>("[sync] {} has left: it has no more steps", to_string(device_));
  if (phase_ == Phase::open)
    raise<SyncError>("[sync] {} opened a step while its step {} is still open", to_string(device_), generation_);
  require_replica("sync.step");
  require_optimizer("sync.step");
  join();
  try {
    server_.check_alive();
  } catch (...) {  // a step that cannot be taken has failed: an optimizer step after it would count it
    set_failure(std::current_exception());
    throw;
  }
  join_gathers();
  if (generation_ == 0) declare_updates(group_number_);
  earlier_ = std::exchange(posted_, {});
  gradients_.turn();
  gradients_.prepare(server_.layout());
  if (updates_) updates_->reset();
  ++generation_;
  buffers_before_.clear();
  if (check_is_due()) append_buffers(buffers_before_);  // before the forward writes them
  set_phase(Phase::open);
  weight_ = 0.0;
  accumulation_flaw_ = nullptr;
  require_weight("sync", weight);
}

// The others hear of it at once: they wait for a step that this device will not take.
void SyncMember::require_weight(std::string_view operation, double weight) {
  if (weight >= 0.0 && weight <= std::numeric_limits<double>::max()) return;
  const SyncError error(
      fmt::format("[{}] weight {} of {} is not a finite number >= 0", operation, weight, to_string(device_)));
  if (phase_ == Phase::open) fail(std::make_exception_ptr(error));
  throw error;
}

void SyncMember::begin_accumulation() {
  if (in_backward())
    raise<SyncError>(
        "[no_sync] {} cannot accumulate with Overlap::in_backward: each backward's gradients are used at once",
        to_string(device_));
  if (phase_ != Phase::open)
    raise<SyncError>("[no_sync] step {} of {} has had its synchronised backward: accumulate before it", generation_,
                     to_string(device_));
  gradients_.prepare(server_.layout());
  ++accumulations_;
}

void SyncMember::end_accumulation(double weight, const char* flaw, bool counts) noexcept {
  if (counts) flaw != nullptr ? void(accumulation_flaw_ = flaw) : void(weight_ += weight);
  --accumulations_;  // last: a backward on another thread that sees none sees what they left
}

void SyncMember::backward(double weight, BackwardOptions options,
                          const std::function<void(const BackwardOptions&)>& run) {
  if (phase_ != Phase::open)
    raise<SyncError>("[sync] step {} of {} has had its synchronised backward: open the next step", generation_,
                     to_string(device_));
  refuse_inside_no_sync();
  refuse_flawed_accumulation();
  if (options.create_graph)
    raise<AutodiffError>(
        "[step.backward] create_graph cannot be combined with synchronisation: use grad(), whose "
        "gradients are local and differentiable");
  weight_ += weight;
  options.weight = root_weight(weight);
  options.observer = this;
  options.group = this;
  run(options);
}

// Exactly 0 sends null gradients; an unweighted reduction counts devices, not examples. Where nothing is reduced,
// nothing divides by the weights either.
double SyncMember::root_weight(double weight) const {
  const bool scaled = weighted() && server_.communicator().enabled();
  return scaled || weight == 0.0 ? weight : 1.0;
}

// Its weight is not counted yet, and the gradient would be reduced without it.
void SyncMember::refuse_inside_no_sync() const {
  if (accumulations_ > 0)
    raise<SyncError>("[sync] a no_sync scope of {} is still alive: end it before step {} is synchronised",
                     to_string(device_), generation_);
}

// The weight of what was accumulated would not be right for all parameters.
void SyncMember::refuse_flawed_accumulation() const {
  if (const char* flaw = accumulation_flaw_)
    raise<SyncError>("[sync] {} on {}: its step {} cannot be synchronised", flaw, to_string(device_), generation_);
}

void SyncMember::synchronize() {
  if (phase_ != Phase::open)
    raise<SyncError>("[sync] step {} of {} is posted already", generation_, to_string(device_));
  refuse_inside_no_sync();
  refuse_flawed_accumulation();
  try {
    register_with({});
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
  on_backward_end(device_);
}

// An input's gradient is its device's alone, and so is what a second model of each device learns. Warned of again when
// there are more of them.
void SyncMember::on_other_leaves(std::span<const Shape> leaves) {
  if (!attached_) return;
  refuse_replaced();
  if (leaves.size() <= told_leaves_) return;
  told_leaves_ = leaves.size();
  const bool one = leaves.size() == 1;
  server_.tell(fmt::format(
      "[sync] the loss of {} in step {} reaches {} {} that require{} a gradient and belong{} to no group, the first of "
      "shape {}. Their gradients are of this device alone: right for an input, wrong for a parameter, which has to be "
      "a member of the replica when that is attached",
      to_string(device_), generation_, leaves.size(), one ? "leaf" : "leaves", one ? "s" : "", one ? "s" : "",
      to_string(leaves.front())));
}

// What is required: the parameters in the graph, and those whose local accumulation was never reduced. The latter are
// final already.
void SyncMember::on_backward_begin(Device device, std::span<const ParameterUse> uses) {
  if (!uses.empty() && device != device_)
    raise<SyncError>("[sync] the loss of {}'s step was computed on {}", to_string(device_), to_string(device));
  if (uses.empty() && !parameters().empty() && weight_ > 0.0)
    raise<SyncError>(
        "[step.backward] the loss of {} reaches no parameter of its replica: is it another copy of the model? "
        "(synchronize() takes part without a loss)",
        to_string(device_));
  register_with(uses);
}

void SyncMember::register_with(std::span<const ParameterUse> uses) {
  refuse_unfrozen();
  join_earlier();
  std::vector<bool> in_graph(parameters().size(), false);
  for (const ParameterUse& use : uses) in_graph[use.id.value] = true;
  std::vector<ParameterId> ids;
  ids.reserve(parameters().size());
  std::vector<ParameterId> accumulated;
  for (std::uint32_t id = 0; id < parameters().size(); ++id) {
    const bool local = gradients_.slot({id}).state == GradientState::local;
    if (in_graph[id] || local) ids.push_back({id});
    if (local && !in_graph[id]) accumulated.push_back({id});
  }
  if (!required_ || !std::ranges::equal(required_->parameters(), ids))
    required_ = std::make_shared<const RequiredSet>(std::move(ids));
  gradients_.prepare(server_.layout());
  buckets_.update(server_.layout(), required_);
  for (const ParameterId id : accumulated) gradients_.bring_home(id);
  if (!accumulated.empty() || check_is_due()) refuse_replaced();  // nobody looked at what was accumulated
  if (check_is_due()) {
    ReplicaDigest held = digest();
    held.insert(held.end(), buffers_before_.begin(), buffers_before_.end());
    server_.check_replica(stamp(), std::move(held), nullptr);
  }
  const Event ready = compute_stream(device_).record();
  server_.register_parameters(stamp(), weight_, required_, gradients_.arena(), ready, passes_on_);
  for (const ParameterId id : accumulated) submit(id, gradients_.local(id, ready));
}

// Double buffering: before a step may be registered, the one before it must have ended.
void SyncMember::join_earlier() {
  if (!earlier_.waiter) return;
  if (!earlier_.waiter->done()) refuse_waiting_for_own_thread(earlier_.generation);
  if (const auto error = collect(earlier_, arrived_)) std::rethrow_exception(error);
}

void SyncMember::on_gradient_final(Device, ParameterId id, GradientRef gradient) {
  const bool unknown_reads = gradient.unknown_reads;
  if (!gradient.gradient.defined() && !gradients_.descriptions()[id.value].sparse) {
    gradient.gradient = gradients_.place_of(id);
    if (counts()) gradient.gradient.fill(0);  // else it is not read
    gradient.ready = compute_stream(device_).record();
    server_.submit(stamp(), id, std::move(gradient));
  } else {
    submit(id, std::move(gradient));
  }
  if (updates_) updates_->poll(server_, device_, index_, unknown_reads);
}

// The scan comes before the submission, and the failure before the exception: whatever unwinds, the cause is told.
void SyncMember::submit(ParameterId id, GradientRef gradient) {
  if (server_.options().check_finite) {
    const std::int64_t bad = count_non_finite(gradient);
    if (bad > 0) {
      const SyncError error(fmt::format(
          "[check_finite] the gradient of parameter \"{}\" of {} in generation {} has {} of {} elements that "
          "are NaN or infinite",
          parameters()[id.value].first, to_string(device_), generation_, bad, element_count(gradient)));
      fail(std::make_exception_ptr(error));
      throw error;
    }
  }
  if (gradients_.scattered()) return give_up(id, std::move(gradient));
  server_.submit(stamp(), id, std::move(gradient));
}

void SyncMember::on_backward_end(Device) {
  posted_ = {server_.collective_sync(stamp(), buffer_share()), gradients_.arena(), required_, generation_};
  set_phase(Phase::posted);
  if (!double_buffered()) return may_join_.store(true, std::memory_order_relaxed);
  gradients_.invalidate();  // what this step accumulated is on its way
  if (const auto arrived = std::exchange(arrived_, nullptr)) install(*arrived, earlier_);
}

void SyncMember::on_backward_failed(Device, std::exception_ptr error) { fail(std::move(error)); }

void SyncMember::fail(std::exception_ptr error) noexcept {
  if (failure_ && server_.has_failed()) return;  // its failure may be an older group's, or have gone untold
  Stamp now = stamp();
  if (left_) now.group = server_.group_number();  // one that follows may not have entered it yet
  const auto acknowledged = server_.device_failed(now, error);
  acknowledged->wait();
  set_failure(acknowledged->error() ? acknowledged->error() : error);  // the group's names the device
  wait_for_tasks(acknowledged->result().get());
  // Steps that were posted have their answers now: their own, if they were committed before.
  std::shared_ptr<const RoundResult> result;
  for (Posted* posted : {&earlier_, &posted_})
    if (posted->waiter) collect(*posted, result);
  arrived_ = nullptr;
  set_phase(Phase::idle);
  gradients_.invalidate();
}

void SyncMember::end_step(bool unwinding) noexcept {
  if (left_) return;  // with the step behind it: nobody waits for this device
  if (unwinding)
    fail(
        std::make_exception_ptr(SyncError("its step was unwound by an exception (step.fail(std::current_exception()), "
                                          "in a catch inside the step, tells which)")));
  else if (phase_ == Phase::open)
    fail(std::make_exception_ptr(
        SyncError("its step ended without a synchronised backward (call step.synchronize() when there is no loss)")));
}

double SyncMember::total_weight() const {
  if (joined_generation_ != generation_ && !double_buffered())
    raise<SyncError>("[sync] the total weight of step {} is known after join", generation_);
  return total_weight_;
}

}  // namespace tutti
