// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/recurrent.h>
#include <tutti/onnx/operators/operator_call.h>

#include <array>
#include <span>
#include <utility>

namespace tutti::onnx {

namespace {

using Call = OperatorCall;

/// What one direction of a recurrent operator computes with.
struct Direction {
  Tensor input;                // [gates hidden, features]
  Tensor recurrent;            // [gates hidden, hidden]
  Tensor input_bias = {};      // [gates hidden], or undefined
  Tensor recurrent_bias = {};  // the same
  Tensor peepholes = {};       // [3 hidden], or undefined
  std::int64_t hidden = 0;
  bool resets_product = true;  // of a GRU: linear_before_reset
};

/// Output and cell state.
struct State {
  Tensor output;
  Tensor cell = {};
};

Tensor part(const Tensor& x, std::int64_t which, std::int64_t hidden) {
  return slice(x, -1, which * hidden, (which + 1) * hidden);
}

State lstm_step(const Direction& direction, const Tensor& product, const State& before) {
  const std::int64_t h = direction.hidden;
  const Tensor gates = product + linear(before.output, direction.recurrent, direction.recurrent_bias);
  const auto seen = [&](std::int64_t which, const Tensor& cell) {  // input, output, forget
    return direction.peepholes.defined() ? part(gates, which, h) + part(direction.peepholes, which, h) * cell
                                         : part(gates, which, h);
  };
  const Tensor input = sigmoid(seen(0, before.cell));
  const Tensor forget = sigmoid(seen(2, before.cell));
  const Tensor cell = forget * before.cell + input * tanh(part(gates, 3, h));
  return {sigmoid(seen(1, cell)) * tanh(cell), cell};
}

State gru_step(const Direction& direction, const Tensor& product, const State& before) {
  const std::int64_t h = direction.hidden;
  const Tensor& state = before.output;
  const auto rows = [&](const Tensor& x, std::int64_t begin, std::int64_t end) {
    return x.defined() ? slice(x, 0, begin * h, end * h) : x;
  };
  const Tensor gates = sigmoid(slice(product, -1, 0, 2 * h) +
                               linear(state, rows(direction.recurrent, 0, 2), rows(direction.recurrent_bias, 0, 2)));
  const Tensor update = part(gates, 0, h);
  const Tensor reset = part(gates, 1, h);
  const Tensor weight = rows(direction.recurrent, 2, 3);
  const Tensor bias = rows(direction.recurrent_bias, 2, 3);
  const Tensor own =
      direction.resets_product ? reset * linear(state, weight, bias) : linear(reset * state, weight, bias);
  const Tensor next = tanh(part(product, 2, h) + own);
  return {next + update * (state - next)};
}

State plain_step(const Direction& direction, const Tensor& product, const State& before) {
  return {tanh(product + linear(before.output, direction.recurrent, direction.recurrent_bias))};
}

void check_activations(const Call& call, std::int64_t gates) {
  if (call.has_attribute("activations") || call.has_attribute("activation_alpha") ||
      call.has_attribute("activation_beta"))
    call.refuse("activations that are told, though they may be the usual ones");
  if (call.has_attribute("clip")) call.refuse("clipped activations");
  if (call.integer("input_forget", 0) != 0) call.refuse("coupled gates");
  if (gates != 3 && call.has_attribute("linear_before_reset")) (void)call.integer("linear_before_reset", 0);
}

/// Each direction's result of one of the stacked operands.
Tensor of_direction(const Call& call, std::size_t input, std::int64_t direction) {
  if (!call.has(input)) return {};
  return squeeze(slice(call.in(input), 0, direction, direction + 1), {0});
}

/// Blocks of rows, or of elements, in another order.
Tensor in_order(const Tensor& x, std::span<const std::int64_t> order, std::int64_t hidden) {
  if (!x.defined() || order.size() == 1) return x;
  Tensors blocks;
  for (const std::int64_t place : order) blocks.push_back(slice(x, 0, place * hidden, (place + 1) * hidden));
  return concatenate(blocks);
}

/// A kind of network: its gates, the places of ours among ONNX's, and one step.
struct Kind {
  RecurrentGates gates;
  std::span<const std::int64_t> order;
  State (*step)(const Direction&, const Tensor&, const State&);
  std::int64_t gate_count() const { return static_cast<std::int64_t>(order.size()); }
};

struct Run {
  Tensor outputs;  // [time, batch, hidden]
  State last;
};

/// By the library's own kernels, which take the weights in another order.
Run run_by_kernels(const Kind& kind, const Direction& direction, const Tensor& x, const State& initial,
                   bool backwards) {
  const std::int64_t time = x.length(0);
  const std::int64_t batch = x.length(1);
  const auto ours = [&](const Tensor& gates) { return in_order(gates, kind.order, direction.hidden); };
  const Tensor rows = reshape(x, {time * batch, x.length(2)});
  const RecurrentStates after =
      tutti::recurrent({.gates = kind.gates,
                        .counts = CachedVector<std::int64_t>(static_cast<std::size_t>(time), batch),
                        .reversed = backwards},
                       {.input_part = linear(rows, ours(direction.input), ours(direction.input_bias)),
                        .hidden = initial.output,
                        .cell = initial.cell,
                        .hidden_weight = ours(direction.recurrent),
                        .hidden_bias = ours(direction.recurrent_bias)});
  return {reshape(after.outputs, {time, batch, direction.hidden}), {after.hidden, after.cell}};
}

/// By operations of each step.
Run run_steps(const Kind& kind, const Direction& direction, const Tensor& x, State state, bool backwards) {
  const std::int64_t time = x.length(0);
  const Tensor products = linear(x, direction.input, direction.input_bias);  // all times at once
  Tensors outputs(static_cast<std::size_t>(time));
  for (std::int64_t i = 0; i < time; ++i) {
    const std::int64_t t = backwards ? time - 1 - i : i;
    state = kind.step(direction, squeeze(slice(products, 0, t, t + 1), {0}), state);
    outputs[static_cast<std::size_t>(t)] = state.output;
  }
  return {stack(outputs), std::move(state)};
}

Tensors run_network(const Call& call, const Kind& kind) {
  const std::int64_t gates = kind.gate_count();
  const bool has_cell = kind.gates == RecurrentGates::lstm;
  check_activations(call, gates);
  const bool is_batch_first = call.integer("layout", 0) != 0;
  const std::string way = call.text("direction", "forward");
  if (way != "forward" && way != "reverse" && way != "bidirectional") call.refuse("direction is '" + way + "'");
  const std::int64_t directions = way == "bidirectional" ? 2 : 1;
  if (call.in(0).dim() != 3 || call.in(1).dim() != 3 || call.in(2).dim() != 3 || call.in(1).length(0) != directions)
    call.refuse("an input, or weights, of other than three axes, or of another number of directions");
  const Tensor x = is_batch_first ? transpose(call.in(0), 0, 1) : call.in(0);  // [time, batch, features]
  const std::int64_t hidden = call.integer("hidden_size", call.in(2).length(-1));
  const std::int64_t time = x.length(0);
  if (call.has(4))
    for (const std::int64_t length : call.values(4))
      if (length != time) call.refuse("sequences of several lengths");
  const Shape state_shape =
      is_batch_first ? Shape{x.length(1), directions, hidden} : Shape{directions, x.length(1), hidden};
  std::array<Tensors, 3> results;  // outputs of all times, last outputs, last cells
  for (std::int64_t d = 0; d < directions; ++d) {
    Direction direction{.input = of_direction(call, 1, d), .recurrent = of_direction(call, 2, d), .hidden = hidden};
    if (const Tensor bias = of_direction(call, 3, d); bias.defined()) {
      direction.input_bias = slice(bias, 0, 0, gates * hidden);
      direction.recurrent_bias = slice(bias, 0, gates * hidden, 2 * gates * hidden);
    }
    if (has_cell) direction.peepholes = of_direction(call, 7, d);
    const auto initial = [&](std::size_t input) {
      if (!call.has(input)) return zeros({x.length(1), hidden}, {.dtype = x.dtype(), .device = x.device()});
      if (call.in(input).shape() != state_shape) call.refuse("a state that is not of the input's sequences");
      return squeeze(is_batch_first ? slice(call.in(input), 1, d, d + 1) : slice(call.in(input), 0, d, d + 1),
                     {is_batch_first ? 1 : 0});
    };
    State state{initial(5)};
    if (has_cell) state.cell = initial(6);
    direction.resets_product = kind.gates != RecurrentGates::gru || call.integer("linear_before_reset", 0) != 0;
    const bool backwards = way == "reverse" || d == 1;
    constexpr std::int64_t kWorthOrdering = 4;  // steps: in each of them the weights are read once
    const bool is_ours = direction.resets_product && !direction.peepholes.defined() && time >= kWorthOrdering;
    Run run = is_ours ? run_by_kernels(kind, direction, x, state, backwards)
                      : run_steps(kind, direction, x, std::move(state), backwards);
    results[0].push_back(std::move(run.outputs));
    results[1].push_back(std::move(run.last.output));
    if (has_cell) results[2].push_back(std::move(run.last.cell));
  }
  Tensors all;
  // [time, directions, batch, hidden], or [batch, time, directions, hidden]
  const Tensor outputs = stack(results[0], 1);
  all.push_back(is_batch_first ? permute(outputs, {2, 0, 1, 3}) : outputs);
  for (std::size_t i = 1; i < (has_cell ? 3U : 2U); ++i) all.push_back(stack(results[i], is_batch_first ? 1 : 0));
  return all;
}

constexpr std::int64_t kLstmOrder[] = {0, 2, 3, 1};
constexpr std::int64_t kGruOrder[] = {1, 0, 2};
constexpr std::int64_t kPlainOrder[] = {0};

Tensors lstm(const Call& call) { return run_network(call, {RecurrentGates::lstm, kLstmOrder, lstm_step}); }
Tensors gru(const Call& call) { return run_network(call, {RecurrentGates::gru, kGruOrder, gru_step}); }
Tensors rnn(const Call& call) { return run_network(call, {RecurrentGates::tanh, kPlainOrder, plain_step}); }

constexpr OperatorEntry kOperators[] = {
    {"GRU", gru},
    {"LSTM", lstm},
    {"RNN", rnn},
};

}  // namespace

std::span<const OperatorEntry> recurrent_operators() { return kOperators; }

}  // namespace tutti::onnx
