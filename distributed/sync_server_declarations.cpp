// SPDX-License-Identifier: Apache-2.0
// What the replicas' parameters are. Devices may leave or fail before they are declared, when the ledger knows none.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/replica_description.h>

#include <utility>

namespace tutti {

void DistributedSyncServer::declare_parameters(MemberIndex member, std::vector<SyncParameter> declared) {
  auto waiter = std::make_shared<SyncWaiter>();
  post(std::make_unique<DeclareParameters>(DeclareParameters{member, std::move(declared), waiter}));
  waiter->wait();
  if (waiter->error()) std::rethrow_exception(waiter->error());
}

// The sender alone hears of what does not fit.
void DistributedSyncServer::handle(std::unique_ptr<DeclareParameters>& message) {
  std::exception_ptr error;
  try {
    take(*message);
  } catch (...) {
    error = std::current_exception();
  }
  message->waiter->release(nullptr, error);
}

void DistributedSyncServer::take(DeclareParameters& message) {
  const std::lock_guard lock(state_mutex_);
  if (declared_by_)
    return refuse_difference("parameter", {devices_[message.member], message.parameters},
                             {devices_[*declared_by_], parameters_});
  if (stepped_)
    raise<SyncError>("[sync] {} declares its parameters after the group's first step, in which no device had any",
                     to_string(devices_[message.member]));
  check_transport(message.parameters);
  declared_by_ = message.member;
  parameters_ = std::move(message.parameters);
  // The last layers' gradients are final first, as a guess.
  std::vector<ParameterId> order;
  for (auto id = static_cast<std::uint32_t>(parameters_.size()); id-- > 0;) order.push_back({id});
  layout_ = std::make_shared<const GradientLayout>(parameters_, order);
  recorder_.set_parameters(parameters_.size());
  if (!ledger_) return;
  ledger_->set_layout(layout_);
  round_->layout = layout_;
  make_room_for_parameters();
}

void DistributedSyncServer::make_room_for_parameters() {
  ready_.resize(parameters_.size() * devices_.size());
  if (scatters()) submitted_.resize(ready_.size());
  if (options_.sharding != Sharding::none) shards_.emplace(parameters_, devices_.size());
}

void DistributedSyncServer::declare_frozen(MemberIndex member, std::vector<SyncParameter> declared) {
  const std::lock_guard lock(state_mutex_);
  if (frozen_declared_by_)
    return refuse_difference("frozen parameter", {devices_[member], declared},
                             {devices_[*frozen_declared_by_], frozen_descriptions_});
  frozen_declared_by_ = member;
  frozen_descriptions_ = std::move(declared);
}

}  // namespace tutti
