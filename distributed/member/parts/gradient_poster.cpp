// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/parts/gradient_poster.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/replica/finite_check.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti {

GradientPoster::GradientPoster(const MemberPlace& place, const Standing& standing, const StepWeight& weight,
                               Replica& replica, StepResults& results)
    : place_(place),
      standing_(standing),
      weight_(weight),
      replica_(replica),
      results_(results),
      buckets_(place.options().bucket_bytes) {}

bool GradientPoster::check_is_due() const {
  const std::int64_t every = place_.options().consistency_every;
  return every > 0 && (standing_.generation() - 1) % every == 0;
}

void GradientPoster::begin_step() {
  registered_ = false;
  arena_ = nullptr;
  buffers_before_.clear();
  if (check_is_due()) replica_.append_buffers(buffers_before_);
  opened_ = std::chrono::steady_clock::now();
}

void GradientPoster::post_without_loss() {
  try {
    register_with({});
  } catch (...) {
    results_.fail(std::current_exception());
    throw;
  }
  on_backward_end(place_.device);
}

// An input's gradient is its device's alone, and so is what a second model of each device learns. Warned of again when
// there are more of them.
void GradientPoster::on_other_leaves(std::span<const Shape> leaves) {
  if (!replica_.is_attached()) return;
  replica_.refuse_replaced();
  if (leaves.size() <= told_leaves_) return;
  told_leaves_ = leaves.size();
  const bool one = leaves.size() == 1;
  place_.server.tell(fmt::format(
      "[sync] the loss of {} in step {} reaches {} {} that require{} a gradient and belong{} to no group, the first of "
      "shape {}. Their gradients are of this device alone: right for an input, wrong for a parameter, which has to be "
      "a member of the replica when that is attached",
      place_.name(), standing_.generation(), leaves.size(), one ? "leaf" : "leaves", one ? "s" : "", one ? "s" : "",
      to_string(leaves.front())));
}

// What is required: the parameters in the graph, and those whose local accumulation was never reduced. The latter are
// final already.
void GradientPoster::on_backward_begin(Device device, std::span<const ParameterUse> uses) {
  if (!uses.empty() && device != place_.device)
    raise<SyncError>("[sync] the loss of {}'s step was computed on {}", place_.name(), to_string(device));
  if (uses.empty() && !replica_.parameters().empty() && weight_.total() > 0.0)
    raise<SyncError>(
        "[step.backward] the loss of {} reaches no parameter of its replica: is it another copy of the model? "
        "(synchronize() takes part without a loss)",
        place_.name());
  register_with(uses);
}

void GradientPoster::register_with(std::span<const ParameterUse> uses) {
  replica_.refuse_unfrozen();
  results_.join_earlier();
  ReplicaGradients& gradients = replica_.gradients();
  const std::size_t count = replica_.parameters().size();
  std::vector<bool> in_graph(count, false);
  for (const ParameterUse& use : uses) in_graph[use.id.value] = true;
  std::vector<ParameterId> ids;
  ids.reserve(count);
  std::vector<ParameterId> accumulated;
  for (std::uint32_t id = 0; id < count; ++id) {
    const bool local = gradients.slot({id}).state == GradientState::accumulated;
    if (in_graph[id] || local) ids.push_back({id});
    if (local && !in_graph[id]) accumulated.push_back({id});
  }
  if (!required_ || !std::ranges::equal(required_->parameters(), ids))
    required_ = std::make_shared<const RequiredSet>(std::move(ids));
  gradients.prepare(place_.server.layout());
  buckets_.update(place_.server.layout(), required_);
  for (const ParameterId id : accumulated) gradients.bring_home(id);
  if (!accumulated.empty() || check_is_due()) replica_.refuse_replaced();  // nobody looked at what was accumulated
  if (check_is_due()) {
    ReplicaDigest held = replica_.digest();
    held.insert(held.end(), buffers_before_.begin(), buffers_before_.end());
    place_.server.check_replica(standing_.stamp(), std::move(held), nullptr);
  }
  const Event ready = compute_stream(place_.device).record();
  arena_ = gradients.arena();
  registered_ = true;
  place_.server.register_parameters(standing_.stamp(), weight_.total(), required_, arena_, ready, passes_on_, opened_);
  for (const ParameterId id : accumulated) submit(id, gradients.local(id, ready));
}

void GradientPoster::on_gradient_final(Device, ParameterId id, GradientRef gradient) {
  const bool unknown_reads = gradient.unknown_reads;
  const ReplicaGradients& gradients = replica_.gradients();
  if (!gradient.gradient.defined() && !gradients.descriptions()[id.value].sparse) {
    gradient.gradient = gradients.place_of(id);
    if (gradients_count()) gradient.gradient.fill(0);  // else it is not read
    gradient.ready = compute_stream(place_.device).record();
    send(id, std::move(gradient));
  } else {
    submit(id, std::move(gradient));
  }
  results_.poll_updates(unknown_reads);
}

void GradientPoster::submit(ParameterId id, GradientRef gradient) {
  if (place_.options().check_finite) refuse_non_finite(id, gradient);
  if (replica_.gradients().scattered()) return give_up(id, std::move(gradient));
  send(id, std::move(gradient));
}

void GradientPoster::send(ParameterId id, GradientRef gradient) {
  place_.server.submit(standing_.stamp(), id, std::move(gradient), arena_.get());
}

// Comes before the submission, and the failure before the exception: whatever unwinds, the cause is told.
void GradientPoster::refuse_non_finite(ParameterId id, const GradientRef& gradient) {
  const std::int64_t bad = count_non_finite(gradient);
  if (bad == 0) return;
  const SyncError error(fmt::format(
      "[check_finite] the gradient of parameter \"{}\" of {} in generation {} has {} of {} elements that "
      "are NaN or infinite",
      replica_.parameters()[id.value].first, place_.name(), standing_.generation(), bad, element_count(gradient)));
  results_.fail(std::make_exception_ptr(error));
  throw error;
}

// The server has the only reference then: a scattered gradient's memory is free when it is reduced, for which nobody
// else is waited for.
void GradientPoster::give_up(ParameterId id, GradientRef gradient) {
  if (!gradient.gradient.is_contiguous()) {
    gradient.gradient = gradient.gradient.contiguous();
    gradient.ready = compute_stream(place_.device).record();
  }
  GradientSlot& slot = replica_.gradients().slot(id);
  slot.state = GradientState::undefined;
  slot.gradient = Array();
  send(id, std::move(gradient));
  place_.server.communicator().crew().help_all(place_.device);
}

void GradientPoster::on_backward_end(Device) {
  results_.post(place_.server.collective_sync(standing_.stamp(), replica_.buffer_share(weight_.total() > 0.0)),
                required_, arena_);
}

void GradientPoster::on_backward_failed(Device, std::exception_ptr error) { results_.fail(std::move(error)); }

}  // namespace tutti
