// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/recurrent.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/composed_calls.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace tutti {
namespace {

constexpr std::string_view kName = "recurrent";

// --- composed of other operations

struct State {
  Tensor hidden;
  Tensor cell;
};

/// `count` gates from number `first` on, of one length each.
Tensor gates(const Tensor& all, std::int64_t hidden, std::int64_t first, std::int64_t count = 1) {
  return slice(all, -1, first * hidden, (first + count) * hidden);
}

/// The formulas of backend/formulas/recurrent_formulas.h, with as few operations as may be.
State step(RecurrentGates kind, const Tensor& from_input, const Tensor& from_hidden, const State& before) {
  const std::int64_t hidden = before.hidden.length(-1);
  if (kind == RecurrentGates::gru) {
    const Tensor reset_and_update = sigmoid(gates(from_input, hidden, 0, 2) + gates(from_hidden, hidden, 0, 2));
    const Tensor reset = gates(reset_and_update, hidden, 0);
    const Tensor update = gates(reset_and_update, hidden, 1);
    const Tensor fresh = tanh(gates(from_input, hidden, 2) + reset * gates(from_hidden, hidden, 2));
    return {fresh + update * (before.hidden - fresh), {}};
  }
  const Tensor all = from_input + from_hidden;
  if (kind == RecurrentGates::tanh) return {tanh(all), {}};
  if (kind == RecurrentGates::relu) return {relu(all), {}};
  const Tensor input_and_forget = sigmoid(gates(all, hidden, 0, 2));
  const Tensor input = gates(input_and_forget, hidden, 0);
  const Tensor forget = gates(input_and_forget, hidden, 1);
  const Tensor cell = forget * before.cell + input * tanh(gates(all, hidden, 2));
  return {sigmoid(gates(all, hidden, 3)) * tanh(cell), cell};
}

/// Appends parts of x of so many rows each, by halves: where gradients are recorded, that of a slice is as large as
/// what it was cut from, and so costs time * log(time) here instead of time^2.
void append_parts(const Tensor& x, std::span<const std::int64_t> counts, CachedVector<Tensor>& parts) {
  if (counts.size() == 1) {
    parts.push_back(x);
    return;
  }
  const std::span<const std::int64_t> first = counts.first(counts.size() / 2);
  const std::int64_t middle = std::accumulate(first.begin(), first.end(), std::int64_t{0});
  append_parts(slice(x, 0, 0, middle), first, parts);
  append_parts(slice(x, 0, middle, x.length(0)), counts.subspan(first.size()), parts);
}

State rows_of(const State& state, std::int64_t begin, std::int64_t end) {
  const auto rows = [&](const Tensor& x) { return x.defined() ? slice(x, 0, begin, end) : x; };
  return {rows(state.hidden), rows(state.cell)};
}

State joined(const CachedVector<State>& parts) {
  if (parts.size() == 1) return parts[0];
  const auto all = [&](Tensor State::*member) {
    CachedVector<Tensor> tensors;
    for (const State& part : parts) tensors.push_back(part.*member);
    return tensors[0].defined() ? concatenate(tensors) : Tensor();
  };
  return {all(&State::hidden), all(&State::cell)};
}

/// Sequences that end, the shortest first, leave the state; where it is read from the end they enter it.
RecurrentStates composed(const RecurrentSteps& steps, const RecurrentSequence& given) {
  const State initial{given.hidden, given.cell};
  if (steps.counts.empty()) return {gates(given.input_part, given.hidden.length(1), 0), given.hidden, given.cell};
  CachedVector<Tensor> parts;
  append_parts(given.input_part, steps.counts, parts);
  const CachedVector<std::int64_t>& counts = steps.counts;
  std::int64_t present = steps.reversed ? counts.back() : counts.front();
  State state = rows_of(initial, 0, present);
  CachedVector<State> ended;
  if (!steps.reversed && present < given.hidden.length(0))
    ended.push_back(rows_of(initial, present, given.hidden.length(0)));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t t = steps.reversed ? parts.size() - 1 - i : i;
    if (counts[t] > present) state = joined({state, rows_of(initial, present, counts[t])});
    if (counts[t] < present) {
      ended.push_back(rows_of(state, counts[t], present));
      state = rows_of(state, 0, counts[t]);
    }
    present = counts[t];
    state = step(steps.gates, parts[t], linear(state.hidden, given.hidden_weight, given.hidden_bias), state);
    parts[t] = state.hidden;
  }
  if (steps.reversed && present < given.hidden.length(0))
    ended.push_back(rows_of(initial, present, given.hidden.length(0)));
  ended.push_back(std::move(state));
  std::ranges::reverse(ended);
  state = joined(ended);
  return {concatenate(parts), state.hidden, state.cell};
}

// --- by kernels

/// The operands in the node's order: the bias before the weight, as everywhere, so that its gradient is final first.
CachedVector<Tensor> in_order(const RecurrentSequence& given) {
  CachedVector<Tensor> inputs{given.input_part, given.hidden};
  if (given.cell.defined()) inputs.push_back(given.cell);
  if (given.hidden_bias.defined()) inputs.push_back(given.hidden_bias);
  inputs.push_back(given.hidden_weight);
  return inputs;
}

RecurrentOperands arrays_of(const RecurrentSequence& given) {
  const auto array = [](const Tensor& tensor) { return tensor.defined() ? tensor.array() : Array(); };
  return {array(given.input_part), array(given.hidden), array(given.cell), array(given.hidden_weight),
          array(given.hidden_bias)};
}

/// The results as one, as RecurrentRun::output has them.
Tensor together(const RecurrentStates& states) {
  CachedVector<Tensor> parts{states.outputs, states.hidden};
  if (states.cell.defined()) parts.push_back(states.cell);
  return concatenate(parts);
}

struct RecurrentGradient {
  RecurrentSteps steps;
  RecurrentRun kept;
  CachedVector<SavedTensor> saved;  // of the operands, in their order
  bool has_cell;
  bool has_bias;

  // Written down again for second derivatives alone: of the operands the weight is all that is read otherwise.
  template <class Restore> void operator()(const Restore& restore, const Tensor& dy, InputGradients& gradients) const {
    if (!grad_enabled()) return run(restore(saved.back()).array(), dy, gradients);
    CachedVector<Tensor> inputs;
    for (const SavedTensor& each : saved) inputs.push_back(restore(each));
    compose(std::move(inputs), dy, gradients);
  }

 private:
  std::size_t weight_at() const { return saved.size() - 1; }
  std::size_t bias_at() const { return saved.size() - 2; }

  void compose(CachedVector<Tensor> inputs, const Tensor& dy, InputGradients& gradients) const {
    // Tensors of their own: an operand may have been made of another one, whose gradient here is not to hold that.
    CachedVector<Tensor> wanted;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (gradients.wanted(i)) wanted.push_back(inputs[i] = reshape(inputs[i], inputs[i].shape()));
    const Tensor joint = together(composed(steps, {.input_part = inputs[0],
                                                   .hidden = inputs[1],
                                                   .cell = has_cell ? inputs[2] : Tensor(),
                                                   .hidden_weight = inputs[weight_at()],
                                                   .hidden_bias = has_bias ? inputs[bias_at()] : Tensor()}));
    if (!joint.requires_grad()) return;  // of no steps, which read no weight
    const std::vector<Tensor> found =
        grad(joint, wanted, {.create_graph = true, .allow_unused = true, .gradients = {dy}});
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (gradients.wanted(i)) gradients.set(i, found[next++]);
  }

  void run(const Array& weight, const Tensor& dy, InputGradients& gradients) const {
    const Array place = gradients.destination(weight_at());
    const RecurrentOperands found =
        recurrent_steps_gradient(steps,
                                 {saved[0].value, saved[1].value, has_cell ? saved[2].value : Array(), weight,
                                  has_bias ? saved[bias_at()].value : Array()},
                                 kept, dy.array(),
                                 {.hidden = gradients.wanted(1),
                                  .hidden_weight = gradients.wanted(weight_at()),
                                  .hidden_bias = has_bias && gradients.wanted(bias_at())},
                                 place.defined() && place.is_contiguous() ? place : Array());
    const auto set = [&](std::size_t at, const Array& gradient) {
      if (gradients.wanted(at)) gradients.set(at, Tensor(gradient));
    };
    set(0, found.input_part);
    set(1, found.hidden);
    if (has_cell) set(2, found.cell);
    if (has_bias) set(bias_at(), found.hidden_bias);
    set(weight_at(), found.hidden_weight);
  }
};

bool is_uniform(const CachedVector<Tensor>& inputs) {
  const DType dtype = inputs.front().dtype();
  return (dtype == DType::f32 || dtype == DType::f64) &&
         std::ranges::all_of(inputs, [&](const Tensor& input) { return input.dtype() == dtype; });
}

/// True if all steps may be computed in f32 where an Autocast narrows each one's product, and be rounded at the end.
bool is_autocast_of_f32(const RecurrentSteps& steps, const CachedVector<Tensor>& inputs,
                        const RecurrentSequence& given) {
  const auto fits = [](const Tensor& input) {
    return input.dtype() == DType::f32 || input.dtype() == DType::bf16 || input.dtype() == DType::f16;
  };
  return autocasts() && !steps.counts.empty() && std::ranges::all_of(inputs, fits) &&
         given.hidden_weight.dtype() == DType::f32 &&
         (!given.hidden_bias.defined() || given.hidden_bias.dtype() == DType::f32) &&
         backend_for(given.hidden.device()).has_fused(FusedKernel::recurrent_steps);
}

/// All in f32 but for the weight, where products are of bf16, as those of other operations.
RecurrentSequence in_f32(const RecurrentSequence& given) {
  const auto wide = [](const Tensor& tensor) { return tensor.defined() ? cast(tensor, DType::f32) : tensor; };
  const bool is_bf16 = autocast_dtype() == DType::bf16 &&
                       backend_for(given.hidden.device()).takes_narrow(FusedKernel::recurrent_steps, DType::bf16);
  return {wide(given.input_part), wide(given.hidden), wide(given.cell),
          is_bf16 ? autocast("linear", given.hidden_weight) : given.hidden_weight, given.hidden_bias};
}

/// The states in the types that the operations of a step, whose product is narrow, give them.
RecurrentStates typed_as_composed(const RecurrentSteps& steps, const RecurrentSequence& given, RecurrentStates states) {
  const DType all = promote(given.input_part.dtype(), autocast_dtype());
  DType hidden = all;
  if (states.cell.defined()) {
    hidden = promote(all, given.cell.dtype());
    states.cell = cast(states.cell, hidden);
  } else if (steps.gates == RecurrentGates::gru) {
    hidden = promote(all, given.hidden.dtype());
  }
  states.outputs = cast(states.outputs, hidden);
  const bool some_have_none = steps.counts.front() < given.hidden.length(0);  // and keep what they began with
  states.hidden = cast(states.hidden, some_have_none ? promote(hidden, given.hidden.dtype()) : hidden);
  return states;
}

RecurrentStates by_kernels(const RecurrentSteps& steps, const RecurrentSequence& given,
                           const CachedVector<Tensor>& inputs) {
  RecurrentRun run = recurrent_steps(steps, arrays_of(given), records(inputs));
  Array output = std::exchange(run.output, {});
  const Tensor joint = record(kName, std::move(output), inputs, [&] {
    CachedVector<SavedTensor> saved;
    for (std::size_t i = 0; i < inputs.size(); ++i) saved.push_back(save(inputs[i], static_cast<int>(i)));
    return RecurrentGradient{steps, std::move(run), std::move(saved), given.cell.defined(),
                             given.hidden_bias.defined()};
  });
  const std::int64_t rows = given.input_part.length(0);
  const std::int64_t batch = given.hidden.length(0);
  return {slice(joint, 0, 0, rows), slice(joint, 0, rows, rows + batch),
          given.cell.defined() ? slice(joint, 0, rows + batch, rows + 2 * batch) : Tensor()};
}

}  // namespace

RecurrentStates recurrent(const RecurrentSteps& steps, const RecurrentSequence& given) {
  const OperationScope scope(kName, given.input_part);
  if (ComposedCalls::active()) return composed(steps, given);
  const CachedVector<Tensor> inputs = in_order(given);
  if (is_uniform(inputs) && !autocasts()) return by_kernels(steps, given, inputs);
  if (!is_autocast_of_f32(steps, inputs, given)) return composed(steps, given);
  const RecurrentSequence wide = in_f32(given);
  return typed_as_composed(steps, given, by_kernels(steps, wide, in_order(wide)));
}

}  // namespace tutti
