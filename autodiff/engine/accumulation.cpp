// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/engine/accumulation.h>

#include <tutti/autodiff/operations/elementwise_operations.h>
#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace tutti {
namespace {

// What takes a backward's weight out of a gradient again. With weight 0 the gradient is of other devices' losses alone,
// which have weights of their own.
double without(double weight) { return weight == 0.0 ? 1.0 : 1.0 / weight; }

bool is_same_place(const Array& a, const Array& b) {
  return a.defined() && b.defined() && a.storage().get() == b.storage().get() && a.offset() == b.offset() &&
         a.is_contiguous() && b.is_contiguous();
}

void move_to_destination(GradientSlot& slot, const Array& gradient) {
  if (!is_same_place(gradient, slot.destination)) slot.destination.copy_from(gradient);
  slot.gradient = slot.destination;
}

void add_to_slot(GradientSlot& slot, Tensor gradient) {
  const bool first = slot.state == GradientState::undefined || !slot.gradient.defined();
  if (first && slot.destination.defined())
    move_to_destination(slot, take_array(std::move(gradient)));
  else if (first)
    slot.gradient = take_exclusive(std::move(gradient));
  else
    add_to(slot.gradient, gradient.array(), is_same_place(slot.gradient, slot.destination) && slot.lent.expired());
  slot.state = GradientState::accumulated;
}

// Nobody else refers to what the slot holds: a caller may write to what he gave as the root's gradient.
void add_to_slot(GradientSlot& slot, std::vector<SparseGradient> rows, double scale) {
  if (slot.state == GradientState::undefined) slot.rows.clear();
  for (SparseGradient& part : rows) {
    Tensor values(std::move(part.rows));
    part.rows = scale == 1.0 ? take_exclusive(std::move(values)) : take_array(values * scale);
    slot.rows.push_back(std::move(part));
  }
  slot.state = GradientState::accumulated;
}

}  // namespace

void Accumulation::begin(Device device, std::span<const BackwardRun::Leaf> leaves) {
  device_ = device;
  std::vector<ParameterUse> uses;
  std::vector<Shape> others;
  const CaptureSuspension off;  // what observers and reductions do is done by themselves in replays, too
  for (const auto& [leaf, contributions] : leaves) {
    const auto& attachment = leaf->slot.attachment;
    if (!attachment) {
      if (options_.observer != nullptr && !leaf->slot.unread) others.push_back(leaf->shape);
      continue;
    }
    leaf->slot.join_pending();  // a reduction in flight still writes the gradient that would be added to
    check_attached(*leaf, *attachment);
    if (options_.observer == nullptr) continue;
    if (!uses.empty() && leaf->device != device_)
      raise<AutodiffError>("[backward] parameters of one step live on {} (\"{}\") and {} (\"{}\")", to_string(device_),
                           first_name_, to_string(leaf->device), attachment->name);
    if (uses.empty()) first_name_ = attachment->name;
    device_ = leaf->device;
    uses.push_back({attachment->id, contributions});
  }
  if (options_.record != nullptr) note_states(leaves);
  if (!others.empty()) options_.observer->on_other_leaves(others);
  if (options_.observer != nullptr) options_.observer->on_backward_begin(device_, uses);
  if (options_.record != nullptr) note_places();
}

void Accumulation::note_states(std::span<const BackwardRun::Leaf> leaves) {
  BackwardRecord& record = *options_.record;
  record.device = device_;
  record.leaves.assign(leaves.begin(), leaves.end());
  for (const auto& leaf : leaves) record.before.push_back(leaf.node->slot.state);
}

void Accumulation::note_places() {
  for (const auto& leaf : options_.record->leaves) {
    const GradientSlot& slot = leaf.node->slot;
    if (!slot.destination.defined())
      raise<CaptureError>(
          "[capture] the loss reaches a leaf that requires a gradient and is no parameter of the captured step's "
          "model");
    options_.record->places.push_back(slot.destination.raw_data());
  }
}

void Accumulation::accumulate(LeafNode& leaf, std::vector<SparseGradient> rows, double weight, bool unknown_reads) {
  GradientSlot& slot = leaf.slot;
  if (!rows.empty()) add_to_slot(slot, std::move(rows), slot.attachment ? 1.0 : without(weight));
  if (options_.observer == nullptr || !slot.attachment) return;
  if (slot.state == GradientState::undefined) slot.rows.clear();
  options_.observer->on_gradient_final(leaf.device, slot.attachment->id,
                                       {Array(), compute_stream(leaf.device).record(), unknown_reads, slot.rows});
}

void Accumulation::accumulate(LeafNode& leaf, Tensor gradient, double weight, bool unknown_reads) {
  GradientSlot& slot = leaf.slot;
  const bool null = !gradient.defined();
  if (!slot.attachment && !null && weight != 1.0) gradient = gradient * without(weight);
  if (!null) add_to_slot(slot, std::move(gradient));
  const bool wanted_there = options_.record != nullptr || (options_.observer != nullptr && slot.attachment);
  if (wanted_there && slot.state == GradientState::accumulated && slot.destination.defined())
    move_to_destination(slot, slot.gradient);
  if (options_.record != nullptr) options_.record->finals.push_back({&leaf, active_capture()->tape().size(), null});
  tell(leaf, unknown_reads);
}

// Where the last of a portion is final, and at the end.
std::vector<std::size_t> Accumulation::segment_ends(std::span<const BackwardRecord::Final> finals) const {
  std::vector<std::size_t> ends;
  std::unordered_set<std::uint32_t> seen;
  for (std::size_t i = finals.size(); i-- > 0;) {
    const auto& attachment = finals[i].leaf->slot.attachment;
    const bool ends_portion =
        options_.observer != nullptr && attachment && seen.insert(options_.observer->portion_of(attachment->id)).second;
    if (ends_portion || i + 1 == finals.size()) ends.push_back(i);
  }
  std::ranges::reverse(ends);
  return ends;
}

void Accumulation::restore(const BackwardRecord::Final& final, bool unknown_reads) {
  GradientSlot& slot = final.leaf->slot;
  if (!final.null) {
    slot.gradient = slot.destination;
    slot.state = GradientState::accumulated;
  }
  tell(*final.leaf, unknown_reads);
}

void Accumulation::tell(LeafNode& leaf, bool unknown_reads) {
  const GradientSlot& slot = leaf.slot;
  if (options_.observer == nullptr || !slot.attachment) return;
  const CaptureSuspension off;
  const Array final = slot.state == GradientState::accumulated ? slot.gradient : Array();
  options_.observer->on_gradient_final(leaf.device, slot.attachment->id,
                                       {final, compute_stream(leaf.device).record(), unknown_reads});
}

void Accumulation::end() {
  const CaptureSuspension off;
  if (options_.observer != nullptr) options_.observer->on_backward_end(device_);
}

void Accumulation::failed() noexcept {
  const CaptureSuspension off;
  if (options_.observer == nullptr) return;
  try {
    options_.observer->on_backward_failed(device_, std::current_exception());
  } catch (...) {
    // the first error is the one to tell
  }
}

void Accumulation::check_attached(const LeafNode& leaf, const Attachment& attachment) const {
  const void* owner = options_.observer != nullptr ? options_.owner : local_owner_;
  if (options_.observer == nullptr && !local_)
    raise<AutodiffError>(
        "[backward] parameter \"{}\" on {} belongs to a synchronisation group: run its backward through "
        "step.backward, or under step.no_sync to accumulate locally",
        attachment.name, to_string(leaf.device));
  if (attachment.owner != owner)
    raise<AutodiffError>("[backward] parameter \"{}\" on {} belongs to another device or group than the step",
                         attachment.name, to_string(leaf.device));
  if (leaf.slot.state == GradientState::settled || leaf.slot.state == GradientState::elsewhere ||
      leaf.slot.state == GradientState::applied)
    raise<AutodiffError>(
        "[backward] the gradient of parameter \"{}\" on {} is reduced already and cannot be added to: "
        "call zero_grad() before the next step",
        attachment.name, to_string(leaf.device));
}

}  // namespace tutti
