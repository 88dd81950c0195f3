// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/recurrent/recurrent_cell.h>

#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/recurrent.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/initialize.h>

#include <cmath>
#include <utility>

namespace tutti {

const RecurrentKind kTanhNetwork{"RNN", RecurrentGates::tanh, 1, false};
const RecurrentKind kReluNetwork{"RNN", RecurrentGates::relu, 1, false};
const RecurrentKind kLstmNetwork{"LSTM", RecurrentGates::lstm, 4, true};
const RecurrentKind kGruNetwork{"GRU", RecurrentGates::gru, 3, false};

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
  const std::int64_t rows = kind.gate_count * hidden;
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
  RecurrentStates after = recurrent({.gates = kind_->gates, .counts = {x.length(0)}},
                                    {.input_part = linear(x, weights.input_weight, weights.input_bias),
                                     .hidden = state("hidden", before.hidden),
                                     .cell = kind_->has_cell ? state("cell", before.cell) : Tensor(),
                                     .hidden_weight = weights.hidden_weight,
                                     .hidden_bias = weights.hidden_bias});
  if (!kind_->has_cell) return {std::move(after.hidden), {}};
  return {std::move(after.hidden), concatenate({after.cell})};  // memory of its own: a program may write to either
}

void RecurrentCell::visit(MemberVisitor& visitor) {
  visitor.parameter("weight_ih", weights.input_weight);
  visitor.parameter("weight_hh", weights.hidden_weight);
  visitor.parameter("bias_ih", weights.input_bias);
  visitor.parameter("bias_hh", weights.hidden_bias);
}

}  // namespace tutti
