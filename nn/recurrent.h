// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/dropout.h>
#include <tutti/nn/recurrent_cell.h>

#include <vector>

namespace tutti {

struct RecurrentOptions {
  std::int64_t layers = 1;     ///< each above the first reads the outputs of the one below
  bool bidirectional = false;  ///< a second network reads from the end; outputs are [forward, backward]
  bool batch_first = false;    ///< sequences are [batch, time, ...] instead of [time, batch, ...]
  double dropout = 0.0;        ///< while training, of the outputs of each layer but the last
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

struct RecurrentOutput {
  Tensor sequence;       ///< [time, batch, directions * hidden]: the last layer's hidden state after each step
  RecurrentState state;  ///< [layers * directions, batch, hidden] after the last step; may begin the next sequence
};

inline Tensor& hooked_output(RecurrentOutput& output) { return output.sequence; }

/// Layers of recurrent networks: x [time, batch, in] and a state to begin with, zeros unless given. The input's part of
/// all steps is one matrix product for each layer and direction. Parameters have PyTorch's names and order,
/// weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_ih_l0_reverse, ..., weight_ih_l1, ..., so that its files
/// load. Sequences are of one length, there are no packed ones: the state after shorter ones has seen their padding.
/// Step a cell and take where(mask, new, old) in its place. Starts as described at `recurrent_weights`.
class RecurrentNetwork : public Module {
 public:
  /// ShapeError for x of no steps, and for x and states of other shapes.
  RecurrentOutput forward(const Tensor& x, const RecurrentState& initial = {}) const;
  void visit(MemberVisitor&) override;

  std::vector<RecurrentWeights> weights;  ///< of each layer, and of each direction in it

 protected:
  /// ShapeError unless sizes and the number of layers are positive, DTypeError unless the type is floating, Error
  /// unless dropout is in [0, 1].
  RecurrentNetwork(const RecurrentKind&, std::int64_t in, std::int64_t hidden, Generator&, const RecurrentOptions&);

 private:
  RecurrentState check_initial(const Tensor& x, const RecurrentState&) const;

  const RecurrentKind* kind_;
  std::int64_t in_;
  std::int64_t hidden_;
  RecurrentOptions options_;
  Dropout dropout_;
};

/// Elman's network, of tanh or ReLU: formula and source at kTanhNetwork (nn/recurrent_cell.h).
class RNN : public RecurrentNetwork {
 public:
  enum class Nonlinearity : std::uint8_t { tanh, relu };
  RNN(std::int64_t in, std::int64_t hidden, Generator& generator, const RecurrentOptions& options = {},
      Nonlinearity nonlinearity = Nonlinearity::tanh)
      : RecurrentNetwork(nonlinearity == Nonlinearity::tanh ? kTanhNetwork : kReluNetwork, in, hidden, generator,
                         options) {}
};

/// Formulas and sources at kLstmNetwork (nn/recurrent_cell.h).
class LSTM : public RecurrentNetwork {
 public:
  LSTM(std::int64_t in, std::int64_t hidden, Generator& generator, const RecurrentOptions& options = {})
      : RecurrentNetwork(kLstmNetwork, in, hidden, generator, options) {}
};

/// Formulas and source at kGruNetwork (nn/recurrent_cell.h).
class GRU : public RecurrentNetwork {
 public:
  GRU(std::int64_t in, std::int64_t hidden, Generator& generator, const RecurrentOptions& options = {})
      : RecurrentNetwork(kGruNetwork, in, hidden, generator, options) {}
};

}  // namespace tutti
