// SPDX-License-Identifier: Apache-2.0
// An optimizer's state between its shares and the format of an unsharded optimizer.
#include <tutti/distributed/sharded/sharded_optimizer.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/member/device_use.h>

#include <algorithm>
#include <utility>

namespace tutti {

std::size_t ShardedOptimizer::state_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const Lap& lap : laps_)
    for (const Share& share : lap.shares) bytes += share.optimizer->state_bytes();
  return bytes;
}

// By ParameterId; those of which this device owns nothing are empty.
std::vector<Optimizer::ParameterState> ShardedOptimizer::own_states() const {
  std::vector<Optimizer::ParameterState> states(member_->parameters().size());
  for (const Lap& lap : laps_)
    for (const Share& share : lap.shares) {
      Optimizer::State state = share.optimizer->state();
      for (std::size_t i = 0; i < share.pieces.size(); ++i)
        states[share.pieces[i].parameter.value] = std::move(state.parameters[i]);
    }
  return states;
}

Optimizer::State ShardedOptimizer::state() {
  const DeviceUse use(*member_, "sharded.state");
  refuse_own_thread("state", 1);
  join();
  member_->take_over_formed_group();
  member_->share().refuse_old_group("state");
  const NoGrad no_grad;
  const std::vector<Optimizer::ParameterState> mine = own_states();
  Optimizer::State state{steps_, {}, std::vector<Optimizer::ParameterState>(mine.size())};
  std::size_t most_arrays = 0;
  for (std::size_t group = 0; group < prototypes_.size(); ++group) {
    state.learning_rates.push_back(learning_rate(group));
    most_arrays = std::max(most_arrays, state_names_[group].size());
  }
  for (std::size_t id = 0; id < mine.size(); ++id) state.parameters[id].group = group_of_[id];
  if (std::ranges::all_of(prototypes_, [&](const auto& each) { return each->kind() == prototypes_[0]->kind(); }))
    state.kind = prototypes_[0]->kind();
  gather_steps(state, mine);
  std::vector<DType> dtypes;
  for (const SyncParameter& parameter : member_->gradients().descriptions())
    if (std::ranges::find(dtypes, parameter.dtype) == dtypes.end()) dtypes.push_back(parameter.dtype);
  for (std::size_t array = 0; array < most_arrays; ++array)
    for (const DType dtype : dtypes) gather_arrays(state, mine, array, dtype);
  return state;
}

Array ShardedOptimizer::gather(const Array& mine) {
  return Collectives::post(collectives_, member_->device(), {.kind = CollectiveKind::all_gather}, Tensor(mine))
      .resolve()
      .array();
}

// Each device sends, for every parameter, its piece's steps and whether it has arrays; the first owner's count.
void ShardedOptimizer::gather_steps(Optimizer::State& state, const std::vector<Optimizer::ParameterState>& mine) {
  std::vector<std::int64_t> sent;
  for (const Optimizer::ParameterState& piece : mine) {
    sent.push_back(piece.steps);
    sent.push_back(piece.arrays.empty() ? 0 : 1);
  }
  const auto width = static_cast<std::int64_t>(sent.size());
  const auto all = gather(Array::from(sent, {1, width}, member_->device())).to_vector<std::int64_t>();
  for (std::uint32_t id = 0; id < mine.size(); ++id) {
    const auto pieces = shards_.pieces_of({id});
    if (pieces.empty()) continue;
    const std::size_t place = pieces.front().owner * sent.size() + 2 * std::size_t{id};
    state.parameters[id].steps = all[place];
    if (all[place + 1] != 0) state.parameters[id].arrays.resize(state_names(id).size());
  }
}

// The shares, one after the other, are the parameters in canonical order.
void ShardedOptimizer::gather_arrays(Optimizer::State& state, const std::vector<Optimizer::ParameterState>& mine,
                                     std::size_t array, DType dtype) {
  const auto& parameters = member_->gradients().descriptions();
  const Device device = member_->device();
  const auto has_it = [&](std::size_t id) {  // not all groups have equally many
    return parameters[id].dtype == dtype && array < state_names(id).size();
  };
  std::int64_t size = 0;
  for (const ShardPlan::Piece& piece : shards_.owned_by(member_->number()))
    if (has_it(piece.parameter.value)) size += piece.size();
  const Array sent = Array::empty({size}, computed_in(dtype), device);
  std::int64_t offset = 0;
  for (const ShardPlan::Piece& piece : shards_.owned_by(member_->number())) {
    if (!has_it(piece.parameter.value)) continue;
    Array place = sent.slice(0, offset, offset + piece.size());
    offset += piece.size();
    if (mine[piece.parameter.value].arrays.empty())
      place.fill(0);
    else
      place.copy_from(mine[piece.parameter.value].arrays[array].second);
  }
  const Array all = gather(sent);
  offset = 0;
  for (std::uint32_t id = 0; id < parameters.size(); ++id) {
    if (!has_it(id)) continue;
    const std::int64_t begin = std::exchange(offset, offset + element_count(parameters[id].shape));
    if (state.parameters[id].arrays.empty()) continue;
    state.parameters[id].arrays[array] = {state_names(id)[array],
                                          all.slice(0, begin, offset).copy().reshape(parameters[id].shape)};
  }
}

// --- loading

void ShardedOptimizer::check_state(const Optimizer::State& state) const {
  const auto& parameters = member_->gradients().descriptions();
  for (const auto& prototype : prototypes_) prototype->check_kind(state);
  if (state.steps < 0) raise("[load_state] the step count {} is negative", state.steps);
  if (state.parameters.size() != parameters.size())
    raise("[load_state] the state is of {} parameters, the group has {}", state.parameters.size(), parameters.size());
  if (state.learning_rates.size() != prototypes_.size())
    raise("[load_state] the state is of {} groups, the optimizer has {}", state.learning_rates.size(),
          prototypes_.size());
  for (std::size_t id = 0; id < parameters.size(); ++id) {
    const auto& [name, shape, dtype, sparse] = parameters[id];
    const Optimizer::ParameterState& loaded = state.parameters[id];
    if (loaded.group != group_of_[id])
      raise("[load_state] parameter \"{}\" is of group {}, in the state of group {}", name, group_of_[id],
            loaded.group);
    if (loaded.steps < 0) raise("[load_state] parameter \"{}\" has a negative step count", name);
    if (loaded.arrays.empty() && loaded.steps == 0) continue;
    if (!std::ranges::equal(loaded.arrays, state_names(id), {}, [](const auto& named) { return named.first; }))
      raise("[load_state] parameter \"{}\" has other state arrays than the optimizer: {} in place of {}", name,
            loaded.arrays.size(), state_names(id).size());
    for (const auto& [array_name, array] : loaded.arrays) {
      if (!array.defined() || array.shape() != shape)
        raise<ShapeError>("[load_state] parameter \"{}\" is {}, its {} {}", name, to_string(shape), array_name,
                          array.defined() ? to_string(array.shape()) : "undefined");
      if (array.dtype() != computed_in(dtype))
        raise<DTypeError>("[load_state] parameter \"{}\" is {}, its {} {}", name, to_string(dtype), array_name,
                          to_string(array.dtype()));
    }
  }
}

void ShardedOptimizer::load_share(Share& share, const Optimizer::State& state) const {
  Optimizer::State own{state.steps, {state.learning_rates[share.group]}, {}};
  for (const Piece& piece : share.pieces) {
    const Optimizer::ParameterState& whole = state.parameters[piece.parameter.value];
    Optimizer::ParameterState& part = own.parameters.emplace_back(Optimizer::ParameterState{whole.steps, {}});
    for (const auto& [name, array] : whole.arrays)
      part.arrays.emplace_back(name, flat_piece(array.contiguous(), piece));
  }
  share.optimizer->load_state(own);
}

void ShardedOptimizer::load_state(const Optimizer::State& state) {
  check_state(state);
  try {
    join();  // nothing may be written to the parameters after this
  } catch (const SyncError&) {
    settle();  // what failed is what this is to replace
  }
  for (std::size_t group = 0; group < prototypes_.size(); ++group)
    prototypes_[group]->set_learning_rate(state.learning_rates[group]);
  for (Lap& lap : laps_)
    for (Share& share : lap.shares) load_share(share, state);
  steps_ = state.steps;
  member_->share().progress().load(steps_);
}

}  // namespace tutti
