// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collectives.h>

#include <tutti/autodiff/engine/runs_on_null.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/ledger/shard_plan.h>
#include <tutti/distributed/member/device_use.h>
#include <tutti/distributed/member/sync_member.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/distributed/threads/thread_number.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace tutti {

namespace {

bool has_gradient(const CollectiveCall& call) {
  if (call.kind == CollectiveKind::barrier || !is_floating(call.dtype)) return false;
  return !reduces(call.kind) || call.operation == CollectiveOperation::sum ||
         call.operation == CollectiveOperation::mean;
}

/// A collective in a graph. Its gradient is the transposed collective, which is posted whatever arrives here, since the
/// other devices wait for it: one whose own loss does not count passes on the gradients of the others' losses.
class CollectiveNode final : public Node, public RunsOnNull {
 public:
  struct Kept {
    CollectiveCall back;
    double share;  // what the transposed collective, which has no mean, leaves out
    Shape shape;   // of the result, as its type
    DType dtype;
    Device device;
    std::weak_ptr<Collectives> collectives;
  };

  CollectiveNode(const CollectiveCall& call, const Tensor& source, Kept kept)
      : Node(to_string(call.kind), {&source, 1}), kept_(std::move(kept)) {}

  void backward(const Tensor& gradient, InputGradients& gradients) override {
    const auto alive = kept_->collectives.lock();
    if (!alive)
      raise<SyncError>("[{}] backward on {} came after its GradientSync had gone", to_string(kept_->back.kind),
                       to_string(kept_->device));
    const Tensor own = gradient.defined() ? gradient : Tensor(Array::zeros(kept_->shape, kept_->dtype, kept_->device));
    const Tensor shared = kept_->share == 1.0 ? own : own * kept_->share;
    gradients.set(0, Collectives::post(alive, kept_->device, kept_->back, shared).resolve());
  }
  void release_saved() override { kept_.reset(); }
  bool released() const noexcept override { return !kept_; }

 private:
  std::optional<Kept> kept_;
};

// Some device's input requires a gradient, so backward passes this collective there: it must pass it here as well. An
// input without a gradient takes part through a leaf of its own, which nobody reads.
Tensor recorded(Array value, const Tensor& input, const CollectiveCall& call, const std::vector<std::int64_t>& received,
                std::weak_ptr<Collectives> collectives) {
  const EnableGrad recording;
  const double share = call.kind == CollectiveKind::reduce_scatter && call.operation == CollectiveOperation::mean
                           ? 1.0 / static_cast<double>(call.lengths.size())
                           : 1.0;
  Tensor source = input;
  if (!input.requires_grad()) {
    source = Tensor(input.array(), true);
    source.gradient_slot().unread = true;
  }
  if (detects_anomalies()) detail::inspect_result(to_string(call.kind), value, {&source, 1});
  if (!records({&source, 1})) return Tensor(std::move(value));
  auto node =
      std::make_shared<CollectiveNode>(call, source,
                                       CollectiveNode::Kept{transposed(call, received), share, value.shape(),
                                                            value.dtype(), input.device(), std::move(collectives)});
  return Tensor::from_node(std::move(value), std::move(node));
}

}  // namespace

// --- PendingTensor

bool PendingTensor::ready() const noexcept { return waiter_->done(); }

Tensor PendingTensor::resolve() {
  if (result_.defined()) return result_;
  const auto collectives = collectives_.lock();
  if (collectives) collectives->await(*this);  // else the group was closed, which answered
  if (waiter_->error()) std::rethrow_exception(waiter_->error());
  const CollectiveResult& result = *waiter_->result();
  if (!result.task) return result_;
  if (!collectives) result.task->wait();
  if (result.task->finished() && result.task->error()) std::rethrow_exception(result.task->error());
  if (!result.output.defined()) return result_;
  if (recording_ && result.differentiable && has_gradient(call_)) {
    if (collectives) collectives->note_recorded(member_);
    result_ = recorded(result.output, input_, call_, result.received, collectives_);
  } else {
    result_ = Tensor(result.output);
  }
  input_ = {};
  return result_;
}

// --- Collectives

Collectives::Collectives(DistributedSyncServer& server, std::span<const std::unique_ptr<SyncMember>> members)
    : server_(server), members_(members), posters_(members.size()) {}

void Collectives::note_recorded(std::size_t member) { members_[member]->note_recorded_collective(); }

std::size_t Collectives::member_of(Device sought) const {
  const std::vector<Device>& devices = server_.members().devices();
  const auto found = std::ranges::find(devices, sought);
  if (found == devices.end()) raise<SyncError>("[sync] {} is not in this group", to_string(sought));
  return static_cast<std::size_t>(found - devices.begin());
}

CollectiveCall Collectives::completed(CollectiveCall call, const Tensor& tensor, Device device) const {
  if (call.kind == CollectiveKind::barrier) {
    check(call, server_.members().group().size());
    return call;
  }
  if (tensor.device() != device)
    raise<DeviceError>("[{}] the tensor of {} lives on {}", to_string(call.kind), members_[member_of(device)]->name(),
                       to_string(tensor.device()));
  const std::span<const Member> group = server_.members().group();
  if (has_root(call.kind) && std::ranges::find(group, call.root) == group.end())
    raise<SyncError>("[sync] {} is not in this group", to_string(call.root, server_.members().world()));
  call.shape = tensor.shape();
  call.dtype = tensor.dtype();
  const bool cut = call.kind == CollectiveKind::reduce_scatter || call.kind == CollectiveKind::all_to_all;
  if (cut && call.lengths.empty() && !call.shape.empty()) call.lengths = even_parts(call.shape[0], group.size());
  check(call, group.size());
  return call;
}

PendingTensor Collectives::post(const std::shared_ptr<Collectives>& self, Device device, CollectiveCall call,
                                const Tensor& tensor) {
  if (active_capture() != nullptr)
    raise<CaptureError>(
        "[{}] a captured step of {} calls it, and a replay would not: only gradients are synchronised within one",
        to_string(call.kind), self->members_[self->member_of(device)]->name());
  PendingTensor pending;
  pending.collectives_ = self;
  pending.member_ = self->member_of(device);
  const DeviceUse use(*self->members_[pending.member_], to_string(call.kind));
  pending.call_ = self->completed(std::move(call), tensor, device);
  pending.recording_ = grad_enabled();
  pending.input_ = tensor;
  PostCollective message;
  if (tensor.defined()) {
    message.input = tensor.array().contiguous();
    message.ready = compute_stream(device).record();
    message.differentiable = has_gradient(pending.call_) && records({&tensor, 1});
  }
  return self->send(std::move(pending), std::move(message));
}

PendingTensor Collectives::gather_in_place(const std::shared_ptr<Collectives>& self, Device device,
                                           std::vector<ParameterId> parameters, std::vector<Array> arrays,
                                           const ShardPlan& shards) {
  PendingTensor pending;
  pending.collectives_ = self;
  pending.member_ = self->member_of(device);
  CollectiveCall& call = pending.call_;
  call.kind = CollectiveKind::gather_in_place;
  call.dtype = arrays.front().dtype();
  std::int64_t size = 0;
  for (const ParameterId id : parameters)
    for (const ShardPlan::Piece& piece : shards.pieces_of(id)) size += piece.size();
  call.shape = Shape{size};
  // All plan the same parts of the same parameters.
  call.purpose = fmt::format("the update of {} sharded parameters, {} to {}", parameters.size(),
                             parameters.front().value, parameters.back().value);
  PostCollective message;
  for (const Array& array : arrays) array.count_write("sharded.step");
  message.parameters = std::move(parameters);
  message.arrays = std::move(arrays);
  message.ready = compute_stream(device).record();
  return self->send(std::move(pending), std::move(message));
}

PendingTensor Collectives::send(PendingTensor pending, PostCollective message) {
  SyncMember& member = *members_[pending.member_];
  Poster& poster = posters_[pending.member_];
  message.member = member.index();
  message.group = member.group_number();
  message.call = pending.call_;
  if (poster.group.exchange(message.group) != message.group) poster.posted.store(0);
  pending.group_ = message.group;
  pending.number_ = message.number = poster.posted.load() + 1;
  pending.waiter_ = server_.post_collective(std::move(message));
  poster.posted.store(pending.number_);
  return pending;
}

void Collectives::await(const PendingTensor& pending) {
  server_.refuse_where_nothing_comes(to_string(pending.call_.kind));
  if (!pending.waiter_->done()) refuse_waiting_for_own_thread(pending);
  server_.await(*pending.waiter_, static_cast<MemberIndex>(pending.member_));
  if (pending.waiter_->error() || !pending.waiter_->result()->task) return;
  pending.waiter_->result()->task->join(members_[pending.member_]->device());
}

std::optional<std::string> Collectives::unposted_of_own_thread(Device device, std::int64_t more) const {
  const std::size_t self = member_of(device);
  const std::uint64_t group = members_[self]->group_number();
  const auto posted = [&](std::size_t member) {
    return posters_[member].group.load() == group ? posters_[member].posted.load() : 0;
  };
  for (std::size_t peer = 0; peer < members_.size(); ++peer)
    if (peer != self && members_[peer]->thread().last_driver() == this_thread_number() &&
        posted(peer) < posted(self) + more)
      return members_[peer]->name();
  return std::nullopt;
}

void Collectives::refuse_waiting_for_own_thread(const PendingTensor& pending) const {
  for (std::size_t peer = 0; peer < members_.size(); ++peer) {
    if (peer == pending.member_) continue;
    // A gather follows its step, so that what counts is who drove the peer in that step.
    const bool gathers = pending.call_.kind == CollectiveKind::gather_in_place;
    const std::uint64_t driver = gathers ? members_[peer]->thread().last_driver() : members_[peer]->thread().open_in();
    if (driver != this_thread_number()) continue;
    const bool posted =
        posters_[peer].group.load() == pending.group_ && posters_[peer].posted.load() >= pending.number_;
    if (posted) continue;
    raise<SyncError>(
        "[sync] {} would wait for {} in collective {} ({}), which this same thread drives and has not posted: post on "
        "every device of a thread, then resolve",
        members_[pending.member_]->name(), members_[peer]->name(), pending.number_, to_string(pending.call_));
  }
}

}  // namespace tutti
