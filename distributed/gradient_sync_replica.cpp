// SPDX-License-Identifier: Apache-2.0
// What a device's replica holds besides gradients: its buffers at the end of a step, its digest, its copies after a
// failure.
#include <tutti/distributed/gradient_sync_member.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>

#include <utility>

namespace tutti {

namespace {

void copy_values(const NamedTensors& from, const NamedTensors& to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    Array target = to[i].second.array();
    target.copy_from(from[i].second.array());
  }
}

}  // namespace

// --- buffers

// Under double buffering a step's results arrive while the next forward writes them.
void SyncMember::declare_buffers(Module& replica) {
  NamedTensors buffers = replica.named_buffers();
  const bool sent = server_.options().buffers != BufferPolicy::synchronised;
  if (sent && double_buffered() && !buffers.empty())
    raise<SyncError>(
        "[sync] buffer \"{}\" on {} cannot be made equal with Overlap::double_buffered, where the next forward writes "
        "it before the step has ended: choose BufferPolicy::synchronised",
        buffers.front().first, to_string(device_));
  std::vector<SyncParameter> description;
  for (const auto& [name, buffer] : buffers) {
    if (buffer.device() != device_)
      raise<SyncError>("[sync] buffer \"{}\" of the replica for {} lives on {}", name, to_string(device_),
                       to_string(buffer.device()));
    description.push_back({name, buffer.shape(), buffer.dtype()});
  }
  server_.declare_buffers(index_, std::move(description));
  buffers_ = std::move(buffers);
}

std::unique_ptr<BufferShare> SyncMember::buffer_share() {
  if (buffers_.empty() || server_.options().buffers == BufferPolicy::synchronised) return nullptr;
  auto share = std::make_unique<BufferShare>();
  for (auto& [name, buffer] : buffers_) {
    if (!buffer.array().is_contiguous()) buffer.set_array(buffer.array().contiguous());
    share->arrays.push_back(buffer.array());
  }
  share->ready = compute_stream(device_).record();
  share->examples = weight_ > 0.0;
  return share;
}

void SyncMember::install_buffers(const RoundResult& round) {
  if (round.followers_buffers.empty()) return;
  const std::vector<Array>& received = round.followers_buffers[index_];
  for (std::size_t i = 0; i < received.size(); ++i) {
    Array target = buffers_[i].second.array();
    target.copy_from(received[i]);
  }
}

// --- the optimizer

// Its updates are part of the step, so that it must be known before the first one, and stays.
void SyncMember::attach(Optimizer& optimizer) {
  if (in_backward()) {
    if (!attached_) raise<SyncError>("[attach] {} needs its replica before its optimizer", to_string(device_));
    if (updates_) raise<SyncError>("[attach] {} has an optimizer already", to_string(device_));
    if (generation_ > 0) raise<SyncError>("[attach] {} needs its optimizer before the first step", to_string(device_));
    updates_ = std::make_unique<BackwardUpdates>(gradients_, optimizer, weak_from_this());
  }
  optimizer_ = &optimizer;
}

void SyncMember::require_optimizer() const {
  if (in_backward() && !updates_ && !parameters().empty())
    raise<SyncError>(
        "[sync.step] {} has no optimizer, which Overlap::in_backward needs: sync.attach(device, optimizer) before the "
        "first step",
        to_string(device_));
}

// --- after a failure

void SyncMember::copy_state_from(const SyncMember& ahead) {
  if ((optimizer_ == nullptr) != (ahead.optimizer_ == nullptr))
    raise<SyncError>("[rejoin] {} has an attached optimizer and {} has none: its state could not be copied",
                     to_string(optimizer_ != nullptr ? device_ : ahead.device_),
                     to_string(optimizer_ != nullptr ? ahead.device_ : device_));
  copy_values(ahead.parameters(), parameters());
  copy_values(ahead.buffers_, buffers_);
  if (optimizer_ != nullptr) optimizer_->load_state(ahead.optimizer_->state());
}

void SyncMember::copy_failed_step_from(const SyncMember& ahead) {
  if (updates_ && ahead.updates_) return copy_state_from(ahead);
  const bool sent = server_.options().buffers != BufferPolicy::synchronised;
  if (sent && attached_ && ahead.attached_) copy_values(ahead.buffers_, buffers_);
}

// --- the check of the replicas

bool SyncMember::check_is_due() const {
  const std::int64_t every = server_.options().consistency_every;
  return every > 0 && (generation_ - 1) % every == 0;
}

void SyncMember::append_buffers(ReplicaDigest& digest) const {
  for (const auto& [name, tensor] : buffers_)
    digest.push_back({fmt::format("buffer \"{}\"", name), digest_of(tensor.array())});
}

ReplicaDigest SyncMember::digest() const {
  ReplicaDigest digest;
  for (const auto& [name, tensor] : parameters())
    digest.push_back({fmt::format("parameter \"{}\"", name), digest_of(tensor.array())});
  return digest;
}

std::shared_ptr<SyncWaiter> SyncMember::check_replica() {
  if (left_ || phase_ == Phase::open)
    raise<SyncError>("[sync] {} can check its replica between steps and before it leaves only", to_string(device_));
  join();
  server_.check_alive();
  join_gathers();
  auto waiter = std::make_shared<SyncWaiter>();
  ReplicaDigest held = digest();
  append_buffers(held);
  server_.check_replica({index_, group_number_, generation_ + 1}, std::move(held), waiter);
  return waiter;
}

}  // namespace tutti
