// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/recurrent/recurrent_cell.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/initialize.h>

#include <cmath>

namespace tutti {
namespace {

Tensor hidden_part(const RecurrentState& before, const RecurrentWeights& weights) {
  return linear(before.hidden, weights.hidden_weight, weights.hidden_bias);
}

/// `count` gates from number `first` on, of one length each.
Tensor gates(const Tensor& all, std::int64_t hidden, std::int64_t first, std::int64_t count = 1) {
  return slice(all, -1, first * hidden, (first + count) * hidden);
}

RecurrentState tanh_step(const Tensor& input_part, const RecurrentState& before, const RecurrentWeights& weights) {
  return {tanh(input_part + hidden_part(before, weights)), {}};
}

RecurrentState relu_step(const Tensor& input_part, const RecurrentState& before, const RecurrentWeights& weights) {
  return {relu(input_part + hidden_part(before, weights)), {}};
}

RecurrentState lstm_step(const Tensor& input_part, const RecurrentState& before, const RecurrentWeights& weights) {
  const std::int64_t hidden = before.hidden.length(-1);
  const Tensor all = input_part + hidden_part(before, weights);
  const Tensor input_and_forget = sigmoid(gates(all, hidden, 0, 2));
  const Tensor input = gates(input_and_forget, hidden, 0);
  const Tensor forget = gates(input_and_forget, hidden, 1);
  const Tensor cell = forget * before.cell + input * tanh(gates(all, hidden, 2));
  return {sigmoid(gates(all, hidden, 3)) * tanh(cell), cell};
}

RecurrentState gru_step(const Tensor& input_part, const RecurrentState& before, const RecurrentWeights& weights) {
  const std::int64_t hidden = before.hidden.length(-1);
  const Tensor from_hidden = hidden_part(before, weights);
  const Tensor reset_and_update = sigmoid(gates(input_part, hidden, 0, 2) + gates(from_hidden, hidden, 0, 2));
  const Tensor reset = gates(reset_and_update, hidden, 0);
  const Tensor update = gates(reset_and_update, hidden, 1);
  const Tensor fresh = tanh(gates(input_part, hidden, 2) + reset * gates(from_hidden, hidden, 2));
  return {fresh + update * (before.hidden - fresh), {}};
}

}  // namespace

const RecurrentKind kTanhNetwork{"RNN", 1, false, tanh_step};
const RecurrentKind kReluNetwork{"RNN", 1, false, relu_step};
const RecurrentKind kLstmNetwork{"LSTM", 4, true, lstm_step};
const RecurrentKind kGruNetwork{"GRU", 3, false, gru_step};

RecurrentWeights recurrent_weights(const RecurrentKind& kind, std::int64_t in, std::int64_t hidden,
                                   Generator& generator, const RecurrentCellOptions& options) {
  if (in <= 0 || hidden <= 0)
    raise<ShapeError>("[{}] sizes must be positive, got in {} and hidden {}", kind.name, in, hidden);
  if (!is_floating(options.dtype))
    raise<DTypeError>("[{}] needs a floating type, got {}", kind.name, to_string(options.dtype));
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const auto parameter = [&](const Shape& shape) {
    Tensor tensor(Array::empty(shape, options.dtype, options.device), true);
    fill_uniform(tensor, generator, -bound, bound);
    return tensor;
  };
  const std::int64_t rows = kind.gates * hidden;
  RecurrentWeights weights{parameter({rows, in}), parameter({rows, hidden}), {}, {}};
  if (options.bias) {
    weights.input_bias = parameter({rows});
    weights.hidden_bias = parameter({rows});
  }
  return weights;
}

RecurrentState RecurrentCell::compute(const Tensor& x, const RecurrentState& before) const {
  const std::int64_t in = weights.input_weight.length(1);
  if (x.rank() != 2 || x.length(1) != in)
    raise<ShapeError>("[{}Cell] needs x [batch, {}], got {}", kind_->name, in, to_string(x.shape()));
  const Shape shape{x.length(0), weights.hidden_weight.length(1)};
  const auto state = [&](std::string_view what, const Tensor& given) {
    if (!given.defined()) return Tensor(Array::zeros(shape, weights.hidden_weight.dtype(), x.device()));
    if (given.shape() != shape)
      raise<ShapeError>("[{}Cell] the {} state is {}, not {}", kind_->name, what, to_string(given.shape()),
                        to_string(shape));
    return given;
  };
  if (!kind_->has_cell && before.cell.defined())
    raise<ShapeError>("[{}Cell] has no cell state, but one is given", kind_->name);
  return kind_->step(linear(x, weights.input_weight, weights.input_bias),
                     {state("hidden", before.hidden), kind_->has_cell ? state("cell", before.cell) : Tensor()},
                     weights);
}

void RecurrentCell::visit(MemberVisitor& visitor) {
  visitor.parameter("weight_ih", weights.input_weight);
  visitor.parameter("weight_hh", weights.hidden_weight);
  visitor.parameter("bias_ih", weights.input_bias);
  visitor.parameter("bias_hh", weights.hidden_bias);
}

}  // namespace tutti
