// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/recurrent.h>

#include <tutti/autodiff/operation_scope.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/call.h>
#include <tutti/nn/time_steps.h>

#include <algorithm>

namespace tutti {
namespace {

/// One layer in one direction, over a whole sequence.
RecurrentOutput run_direction(const RecurrentKind& kind, const RecurrentWeights& weights, const Tensor& x,
                              RecurrentState state, bool reversed) {
  std::vector<Tensor> steps = time_steps(linear(x, weights.input_weight, weights.input_bias));
  if (reversed) std::ranges::reverse(steps);
  for (Tensor& step : steps) {
    state = kind.step(step, state, weights);
    step = state.hidden;
  }
  if (reversed) std::ranges::reverse(steps);
  return {stack(steps), std::move(state)};
}

Tensor entry(const Tensor& states, std::int64_t i) {
  return states.defined() ? squeeze(slice(states, 0, i, i + 1), {0}) : states;
}

}  // namespace

RecurrentNetwork::RecurrentNetwork(const RecurrentKind& kind, std::int64_t in, std::int64_t hidden,
                                   Generator& generator, const RecurrentOptions& options)
    : kind_(&kind), in_(in), hidden_(hidden), options_(options), dropout_(options.dropout, generator) {
  if (options.layers <= 0) raise<ShapeError>("[{}] needs a layer or more, got {}", kind.name, options.layers);
  if (options.layers == 1) dropout_.refuse_hooks("it stands between layers, of which there is one");
  const int directions = options.bidirectional ? 2 : 1;
  for (std::int64_t layer = 0; layer < options.layers; ++layer)
    for (int direction = 0; direction < directions; ++direction)
      weights.push_back(recurrent_weights(kind, layer == 0 ? in : hidden * directions, hidden, generator,
                                          {options.bias, options.dtype, options.device}));
}

RecurrentState RecurrentNetwork::check_initial(const Tensor& x, const RecurrentState& given) const {
  const Shape shape{static_cast<std::int64_t>(weights.size()), x.length(1), hidden_};
  const auto checked = [&](std::string_view what, const Tensor& state) {
    if (!state.defined()) return Tensor(Array::zeros(shape, weights[0].hidden_weight.dtype(), x.device()));
    if (state.shape() != shape)
      raise<ShapeError>("[{}] the initial {} state is {}, not [layers * directions, batch, hidden] = {}", kind_->name,
                        what, to_string(state.shape()), to_string(shape));
    return state;
  };
  if (!kind_->has_cell && given.cell.defined())
    raise<ShapeError>("[{}] has no cell state, but one is given", kind_->name);
  return {checked("hidden", given.hidden), kind_->has_cell ? checked("cell", given.cell) : Tensor()};
}

RecurrentOutput RecurrentNetwork::forward(const Tensor& input, const RecurrentState& given) const {
  const ModuleCall here(*this);
  const OperationScope scope(kind_->name, input);
  if (input.rank() != 3 || input.length(2) != in_ || input.length(options_.batch_first ? 1 : 0) == 0)
    raise<ShapeError>("[{}] needs x [{}, {}] of a step or more, got {}", kind_->name,
                      options_.batch_first ? "batch, time" : "time, batch", in_, to_string(input.shape()));
  Tensor x = options_.batch_first ? transpose(input, 0, 1) : input;
  const RecurrentState initial = check_initial(x, given);
  const std::size_t directions = options_.bidirectional ? 2 : 1;
  std::vector<Tensor> hidden;
  std::vector<Tensor> cells;
  for (std::size_t begin = 0; begin < weights.size(); begin += directions) {
    if (begin > 0) x = call(dropout_, x);
    std::vector<Tensor> outputs;
    for (std::size_t i = begin; i < begin + directions; ++i) {
      const auto place = static_cast<std::int64_t>(i);
      RecurrentOutput output =
          run_direction(*kind_, weights[i], x, {entry(initial.hidden, place), entry(initial.cell, place)}, i > begin);
      outputs.push_back(std::move(output.sequence));
      hidden.push_back(std::move(output.state.hidden));
      cells.push_back(std::move(output.state.cell));
    }
    x = directions == 1 ? outputs[0] : concatenate(outputs, -1);
  }
  return {options_.batch_first ? transpose(x, 0, 1) : x, {stack(hidden), kind_->has_cell ? stack(cells) : Tensor()}};
}

void RecurrentNetwork::visit(MemberVisitor& visitor) {
  const std::size_t directions = options_.bidirectional ? 2 : 1;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::string place = fmt::format("l{}{}", i / directions, i % directions == 1 ? "_reverse" : "");
    visitor.parameter("weight_ih_" + place, weights[i].input_weight);
    visitor.parameter("weight_hh_" + place, weights[i].hidden_weight);
    visitor.parameter("bias_ih_" + place, weights[i].input_bias);
    visitor.parameter("bias_hh_" + place, weights[i].hidden_bias);
  }
  visitor.module("dropout", dropout_);
}

}  // namespace tutti
