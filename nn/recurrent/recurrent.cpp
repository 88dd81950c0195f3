// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/recurrent.h>

#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/recurrent.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/memory/thread_cache.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/recurrent/packed_steps.h>

#include <utility>

namespace tutti {
namespace {

/// One layer in one direction: x [time, batch, in], or [rows, in] of packed steps, states in order of length.
RecurrentOutput run_direction(const RecurrentSteps& steps, const RecurrentWeights& weights, const Tensor& x,
                              const RecurrentState& initial) {
  const Tensor part = linear(x, weights.input_weight, weights.input_bias);
  RecurrentStates after = recurrent(steps, {.input_part = reshape(part, {steps.rows(), part.length(-1)}),
                                            .hidden = initial.hidden,
                                            .cell = initial.cell,
                                            .hidden_weight = weights.hidden_weight,
                                            .hidden_bias = weights.hidden_bias});
  Shape shape = x.shape();
  shape[shape.size() - 1] = after.outputs.length(1);
  return {reshape(after.outputs, shape), {std::move(after.hidden), std::move(after.cell)}};
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

RecurrentOutput RecurrentNetwork::run_layers(Tensor x, const RecurrentState& initial,
                                             const CachedVector<std::int64_t>& counts) const {
  const std::size_t directions = options_.bidirectional ? 2 : 1;
  CachedVector<Tensor> hidden;
  CachedVector<Tensor> cells;
  for (std::size_t begin = 0; begin < weights.size(); begin += directions) {
    if (begin > 0) x = dropout_(x);
    CachedVector<Tensor> outputs;
    for (std::size_t i = begin; i < begin + directions; ++i) {
      const auto place = static_cast<std::int64_t>(i);
      RecurrentOutput output = run_direction({.gates = kind_->gates, .counts = counts, .reversed = i > begin},
                                             weights[i], x, {entry(initial.hidden, place), entry(initial.cell, place)});
      outputs.push_back(std::move(output.sequence));
      hidden.push_back(std::move(output.state.hidden));
      cells.push_back(std::move(output.state.cell));
    }
    x = directions == 1 ? outputs[0] : concatenate(outputs, -1);
  }
  return {std::move(x), {stack(hidden), kind_->has_cell ? stack(cells) : Tensor()}};
}

RecurrentOutput RecurrentNetwork::compute(const Tensor& input, const RecurrentState& given,
                                          const SequenceLengths& lengths) const {
  const OperationScope scope(kind_->name, input);
  if (input.rank() != 3 || input.length(2) != in_ || input.length(options_.batch_first ? 1 : 0) == 0)
    raise<ShapeError>("[{}] needs x [{}, {}] of a step or more, got {}", kind_->name,
                      options_.batch_first ? "batch, time" : "time, batch", in_, to_string(input.shape()));
  const Tensor x = options_.batch_first ? transpose(input, 0, 1) : input;
  const RecurrentState initial = check_initial(x, given);
  RecurrentOutput output;
  const std::int64_t time = x.length(0);
  const std::int64_t batch = x.length(1);
  if (lengths.any_shorter(kind_->name, time, batch)) {
    const PackedSteps packed(lengths.values(), time, x.device());
    const auto ordered = [](const RecurrentState& state, const auto& order) -> RecurrentState {
      return {order(state.hidden), state.cell.defined() ? order(state.cell) : Tensor()};
    };
    output = run_layers(packed.pack(x), ordered(initial, [&](const Tensor& s) { return packed.by_length(s); }),
                        packed.counts());
    output.sequence = packed.unpack(output.sequence);
    output.state = ordered(output.state, [&](const Tensor& s) { return packed.as_given(s); });
  } else {
    output = run_layers(x, initial, CachedVector<std::int64_t>(static_cast<std::size_t>(time), batch));
  }
  if (options_.batch_first) output.sequence = transpose(output.sequence, 0, 1);
  return output;
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
