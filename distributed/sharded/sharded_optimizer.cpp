// SPDX-License-Identifier: Apache-2.0
// Steps. What is kept and loaded: sharded_state.cpp.
#include <tutti/distributed/sharded/sharded_optimizer.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/member/device_use.h>
#include <tutti/distributed/member/sync_group.h>
#include <tutti/optim/steps/ready_gradient.h>

#include <cmath>
#include <utility>

namespace tutti {

namespace {

std::shared_ptr<SyncMember> checked(std::shared_ptr<SyncMember> member, const SyncOptions& options) {
  if (options.sharding == Sharding::none)
    raise<SyncError>("[sharded] the group of {} shards nothing: set SyncOptions::sharding", member->name());
  if (member->parameters().empty())
    raise<SyncError>("[sharded] {} has no replica with parameters: attach one first", member->name());
  return member;
}

}  // namespace

ShardedOptimizer::ShardedOptimizer(GradientSync& sync, Device device, const Factory& factory)
    : ShardedOptimizer(
          sync, device,
          Groups{.count = 1,
                 .group_of = [](const std::string&) { return std::size_t{0}; },
                 .make = [&](std::size_t, std::vector<Tensor> pieces) { return factory(std::move(pieces)); }}) {}

ShardedOptimizer::ShardedOptimizer(GradientSync& sync, Device device, const Groups& groups)
    : member_(checked(sync.group()->member(device), sync.server().options())),
      collectives_(sync.group()->collectives()),
      shards_(member_->gradients().descriptions(), sync.world().devices) {
  for (const SyncParameter& parameter : member_->gradients().descriptions()) {
    group_of_.push_back(groups.group_of(parameter.name));
    if (group_of_.back() >= groups.count)
      raise<SyncError>("[sharded] parameter \"{}\" is said to be of group {}, there are {}", parameter.name,
                       group_of_.back(), groups.count);
  }
  learn_prototypes(groups);
  make_laps(groups, sync.server().options().bucket_bytes);
  member_->share().attach(*this);
}

ShardedOptimizer::~ShardedOptimizer() {
  settle();
  member_->share().detach();
}

// A device may own nothing at all, and has to know the learning rates and the state's names nevertheless.
void ShardedOptimizer::learn_prototypes(const Groups& groups) {
  const SyncParameter& first = member_->gradients().descriptions().front();
  for (std::size_t group = 0; group < groups.count; ++group) {
    Tensor element(Array::zeros({1}, first.dtype, member_->device()), true);
    std::unique_ptr<Optimizer> prototype = groups.make(group, {element});
    if (!prototype->elementwise())
      raise<SyncError>(
          "[sharded] an optimizer that looks at whole parameters cannot update shares of them: leave it unsharded");
    if (prototype->group_count() != 1)
      raise<SyncError>("[sharded] the optimizer has {} groups of its own: say them in ShardedOptimizer::Groups",
                       prototype->group_count());
    element.gradient_slot().gradient = Array::zeros({1}, first.dtype, member_->device());
    element.gradient_slot().state = GradientState::settled;
    prototype->step();
    element.zero_grad();
    const Optimizer::State state = prototype->state();
    std::vector<std::string>& names = state_names_.emplace_back();
    for (const auto& [name, array] : state.parameters.front().arrays) names.push_back(name);
    prototypes_.push_back(std::move(prototype));
  }
}

void ShardedOptimizer::make_laps(const Groups& groups, std::size_t bytes) {
  for (std::vector<ParameterId>& parameters : shards_.laps(bytes)) {
    Lap lap{std::move(parameters), {}};
    for (std::size_t group = 0; group < groups.count; ++group)
      if (Share share = make_share(groups, lap, group); share.optimizer) lap.shares.push_back(std::move(share));
    laps_.push_back(std::move(lap));
  }
}

// Without an optimizer if this device owns nothing of the group.
ShardedOptimizer::Share ShardedOptimizer::make_share(const Groups& groups, const Lap& lap, std::size_t group) const {
  Share share{group, {}, nullptr};
  std::vector<Tensor> leaves;
  for (const ParameterId id : lap.parameters) {
    if (group_of_[id.value] != group) continue;
    for (const ShardPlan::Piece& owned : shards_.pieces_of(id)) {
      if (owned.owner != member_->number()) continue;
      const Array flat = parameter(id).reshape({-1}).slice(0, owned.begin, owned.end);
      leaves.push_back(share.pieces.emplace_back(Piece{id, owned.begin, Tensor(flat, true)}).leaf);
    }
  }
  if (!leaves.empty()) share.optimizer = groups.make(group, std::move(leaves));
  return share;
}

const Array& ShardedOptimizer::parameter(ParameterId id) const {
  const auto& [name, tensor] = member_->parameters()[id.value];
  if (!tensor.array().is_contiguous())
    raise<SyncError>("[sharded] parameter \"{}\" of {} is a strided view; give it a contiguous array", name,
                     member_->name());
  return tensor.array();
}

Array ShardedOptimizer::flat_piece(const Array& whole, const Piece& piece) const {
  return whole.reshape({-1}).slice(0, piece.begin, piece.begin + piece.leaf.size());
}

// --- a step

void ShardedOptimizer::step() {
  refuse_own_thread("step", static_cast<std::int64_t>(laps_.size()));
  step_async();
  join();
}

// Before anything changes: the calling thread would wait for a device that it drives itself.
void ShardedOptimizer::refuse_own_thread(std::string_view operation, std::int64_t collectives) const {
  if (const auto peer = collectives_->unposted_of_own_thread(member_->device(), collectives))
    raise<SyncError>(
        "[sharded] {} of {} would wait for {}, whose last step this same thread opened: call step_async on every "
        "device of a thread, then join; other collectives need a thread for each device",
        operation, member_->name(), *peer);
}

// Whatever can be refused is refused before the first parameter changes; from then on the others' shares have to come.
void ShardedOptimizer::step_async() {
  const DeviceUse use(*member_, "sharded.step");
  join();
  take_gradients();
  member_->share().begin(steps_ + 1, laps_.size());
  ++steps_;
  try {
    for (Lap& lap : laps_) {
      for (const Share& share : lap.shares) share.optimizer->step();
      post_gather(lap);
    }
  } catch (...) {  // the others wait for what will never come
    member_->fail(std::current_exception());
    throw;
  }
  drop_gradients();
}

void ShardedOptimizer::join() {
  for (PendingTensor& gather : pending_) gather.resolve();
  pending_.clear();
  if (!member_->share().progress().settle())
    raise<SyncError>("[sharded] {}", member_->share().progress().torn_text(member_->name()));
}

void ShardedOptimizer::settle() noexcept {
  for (PendingTensor& gather : pending_) try {
      if (gather.ready()) gather.resolve();
    } catch (...) {
      // `whole` tells
    }
  pending_.clear();
}

bool ShardedOptimizer::whole() const { return member_->share().progress().whole(); }

void ShardedOptimizer::zero_grad() {
  for (const auto& [name, parameter] : member_->parameters()) Tensor(parameter).zero_grad();
}

void ShardedOptimizer::post_gather(const Lap& lap) {
  std::vector<Array> arrays;
  for (const ParameterId id : lap.parameters) arrays.push_back(parameter(id));
  pending_.push_back(
      Collectives::gather_in_place(collectives_, member_->device(), lap.parameters, std::move(arrays), shards_));
  member_->share().progress().posted(pending_.back().waiter_);
}

// --- gradients

// Undefined if the parameter has none.
Array ShardedOptimizer::gradient_of(const Piece& piece) const {
  const ReplicaGradients& gradients = member_->gradients();
  if (gradients.slot(piece.parameter).state == GradientState::elsewhere) return gradients.share(piece.parameter);
  const Tensor& whole = member_->parameters()[piece.parameter.value].second;
  const Array gradient = ready_gradient("sharded.step", whole, piece.parameter.value);
  return gradient.defined() ? flat_piece(gradient.contiguous(), piece) : gradient;
}

void ShardedOptimizer::take_gradients() {
  member_->join();
  for (Lap& lap : laps_)
    for (Share& share : lap.shares)
      for (Piece& piece : share.pieces) {
        const Array flat = flat_piece(parameter(piece.parameter), piece);
        if (flat.raw_data() != piece.leaf.array().raw_data()) piece.leaf.set_array(flat);  // it was loaded
        GradientSlot& slot = piece.leaf.gradient_slot();
        slot.gradient = gradient_of(piece);
        slot.state = slot.gradient.defined() ? GradientState::settled : GradientState::undefined;
      }
}

// The next backward may use their memory.
void ShardedOptimizer::drop_gradients() {
  for (Lap& lap : laps_)
    for (Share& share : lap.shares)
      for (Piece& piece : share.pieces) piece.leaf.zero_grad();
}

std::vector<Tensor> ShardedOptimizer::leaves() const {
  std::vector<Tensor> leaves;
  for (const Lap& lap : laps_)
    for (const Share& share : lap.shares)
      for (const Piece& piece : share.pieces) leaves.push_back(piece.leaf);
  return leaves;
}

// In the tree of the devices.
double ShardedOptimizer::sum_over_devices(double mine) {
  const Device device = member_->device();
  const NoGrad no_grad;
  const Tensor own(Array::full({1}, mine, DType::f64, device));
  return Collectives::post(collectives_, device, {.kind = CollectiveKind::all_reduce}, own).resolve().item<double>();
}

double ShardedOptimizer::clip_grad_norm(double max_norm, const ClipOptions& options) {
  check_max_norm(max_norm);
  refuse_own_thread("clip_grad_norm", 1);
  member_->share().refuse_old_group("clip_grad_norm");
  take_gradients();
  const double norm = std::sqrt(sum_over_devices(gradient_square_sum(leaves())));
  clip_to_norm(leaves(), norm, max_norm, options);
  if (options.drop_if_non_finite && !std::isfinite(norm)) zero_grad();  // else the step would take them again
  return norm;
}

void ShardedOptimizer::clip_grad_value(double limit) {
  take_gradients();
  tutti::clip_grad_value(leaves(), limit);
}

bool ShardedOptimizer::unscale_grad(double scale) {
  refuse_own_thread("unscale_grad", 1);
  member_->share().refuse_old_group("unscale_grad");
  take_gradients();
  const bool finite = sum_over_devices(gradients_are_finite(leaves()) ? 0.0 : 1.0) == 0.0;
  if (finite) multiply_gradients(leaves(), 1.0 / scale);
  return finite;
}

Optimizer& ShardedOptimizer::prototype(std::size_t group) const {
  if (group >= prototypes_.size())
    raise<SyncError>("[sharded] there is no group {}: it has {}", group, prototypes_.size());
  return *prototypes_[group];
}

double ShardedOptimizer::learning_rate(std::size_t group) const { return prototype(group).learning_rate(); }

void ShardedOptimizer::set_learning_rate(double rate) {
  for (std::size_t group = 0; group < prototypes_.size(); ++group) set_learning_rate(group, rate);
}

void ShardedOptimizer::set_learning_rate(std::size_t group, double rate) {
  prototype(group).set_learning_rate(rate);
  for (const Lap& lap : laps_)
    for (const Share& share : lap.shares)
      if (share.group == group) share.optimizer->set_learning_rate(rate);
}

}  // namespace tutti
