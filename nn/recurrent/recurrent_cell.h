// SPDX-License-Identifier: Apache-2.0
#pragma once

// One time step of a recurrent network. Formulas, names and the order of gates are PyTorch's; formulas and sources
// stand at the constants of each kind.

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/random.h>
#include <tutti/nn/layer.h>

#include <cstdint>
#include <string_view>

namespace tutti {

struct RecurrentState {
  Tensor hidden = {};  ///< [batch, hidden]; in networks [layers * directions, batch, hidden]. Undefined: zeros
  Tensor cell = {};    ///< cell state of an LSTM, in the shape of `hidden`; else undefined
};

inline Tensor& hooked_output(RecurrentState& state) { return state.hidden; }

/// Weights of `gates` blocks of rows each: 1 (RNN), 4 (LSTM: input, forget, cell, output) or 3 (GRU: reset, update,
/// new).
struct RecurrentWeights {
  Tensor input_weight;   ///< "weight_ih" [gates * hidden, in]
  Tensor hidden_weight;  ///< "weight_hh" [gates * hidden, hidden]
  Tensor input_bias;     ///< "bias_ih" [gates * hidden]; undefined without bias
  Tensor hidden_bias;    ///< "bias_hh" [gates * hidden]; undefined without bias
};

/// Properties that tell one kind of recurrent network from another.
struct RecurrentKind {
  std::string_view name;
  RecurrentGates gates;
  std::int64_t gate_count;
  bool has_cell;
};

/// h' = tanh(x W_ih^T + b_ih + h W_hh^T + b_hh), or ReLU in place of tanh: Elman, "Finding Structure in Time" (1990).
extern const RecurrentKind kTanhNetwork;
extern const RecurrentKind kReluNetwork;
/// c' = sigmoid(f) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(c'): Hochreiter and Schmidhuber, "Long Short-Term
/// Memory" (1997), with the forget gate of Gers et al. (2000).
extern const RecurrentKind kLstmNetwork;
/// n = tanh(x W_in^T + b_in + sigmoid(r) (h W_hn^T + b_hn)); h' = (1 - sigmoid(z)) n + sigmoid(z) h: Cho et al.,
/// "Learning Phrase Representations using RNN Encoder-Decoder" (2014).
extern const RecurrentKind kGruNetwork;

struct RecurrentCellOptions {
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// All weights uniform in [-1/sqrt(hidden), 1/sqrt(hidden)). ShapeError unless both sizes are positive, DTypeError
/// unless the type is floating.
RecurrentWeights recurrent_weights(const RecurrentKind&, std::int64_t in, std::int64_t hidden, Generator&,
                                   const RecurrentCellOptions&);

/// One step: x [batch, in] and the state before, zeros unless given -> the state after. ShapeError for other shapes,
/// and for a cell state where the kind has none.
class RecurrentCell : public LayerOf<RecurrentState(const Tensor& x, const RecurrentState& before)> {
 public:
  using LayerOf::forward;
  using LayerOf::operator();
  RecurrentState forward(const Tensor& x) const { return forward(x, RecurrentState()); }
  RecurrentState operator()(const Tensor& x) const { return forward(x); }
  RecurrentState compute(const Tensor& x, const RecurrentState& before) const override;
  void visit(MemberVisitor&) override;

  RecurrentWeights weights;  ///< named weight_ih, weight_hh, bias_ih, bias_hh

 protected:
  RecurrentCell(const RecurrentKind& kind, std::int64_t in, std::int64_t hidden, Generator& generator,
                const RecurrentCellOptions& options)
      : weights(recurrent_weights(kind, in, hidden, generator, options)), kind_(&kind) {}

 private:
  const RecurrentKind* kind_;
};

/// A cell of that kind; errors as of `recurrent_weights`.
template <const RecurrentKind& kind> class CellOf : public RecurrentCell {
 public:
  CellOf(std::int64_t in, std::int64_t hidden, Generator& generator, const RecurrentCellOptions& options = {})
      : RecurrentCell(kind, in, hidden, generator, options) {}
};

using RNNCell = CellOf<kTanhNetwork>;
using LSTMCell = CellOf<kLstmNetwork>;
using GRUCell = CellOf<kGruNetwork>;

}  // namespace tutti
