// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/dropout.h>
#include <tutti/nn/recurrent/recurrent_cell.h>
#include <tutti/nn/recurrent/sequence_lengths.h>

#include <concepts>
#include <vector>

namespace tutti {

struct RecurrentOptions {
  std::int64_t layers = 1;     ///< each above the first reads the outputs of the one below
  bool bidirectional = false;  ///< a second network reads from the end; outputs are [forward, backward]
  bool batch_first = false;    ///< sequences are [batch, time, ...] instead of [time, batch, ...]
  double dropout = 0.0;        ///< share of the outputs of each layer but the last dropped in training
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu(0);
};

struct RecurrentOutput {
  /// [time, batch, directions * hidden]: the last layer's hidden state after each step, 0 behind a sequence's end.
  Tensor sequence;
  /// [layers * directions, batch, hidden] after each sequence's last step; may begin the next sequence.
  RecurrentState state;
};

inline Tensor& hooked_output(RecurrentOutput& output) { return output.sequence; }

/// Layers of recurrent networks: x [time, batch, in] and a state to begin with, zeros unless given. The input's part of
/// all steps is one matrix product for each layer and direction. Parameters have PyTorch's names and order,
/// weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_ih_l0_reverse, ..., weight_ih_l1, ..., so that its files
/// load. Starts as described at `recurrent_weights`.
///
///   lstm(x);                 // all steps of all sequences
///   lstm(x, {5, 2, 3});      // a batch of three, padded: what lies behind 5, 2 and 3 steps is not seen
///   lstm(x, lengths);        // the same by a vector, or a tensor of integers
///   lstm(x, state, lengths);
///
/// With lengths nothing is computed of the padding, the backward direction begins at each sequence's end, and results
/// are those of each sequence by itself (PyTorch's pack_padded_sequence, of sequences in any order, with total_length).
/// Lengths are values of the host, so that a captured step cannot have shorter ones: CaptureError.
class RecurrentNetwork
    : public LayerOf<RecurrentOutput(const Tensor& x, const RecurrentState& initial, const SequenceLengths& lengths)> {
 public:
  using LayerOf::forward;
  using LayerOf::operator();
  RecurrentOutput forward(const Tensor& x, const RecurrentState& initial = {}) const {
    return forward(x, initial, SequenceLengths());
  }
  RecurrentOutput operator()(const Tensor& x, const RecurrentState& initial = {}) const { return forward(x, initial); }
  template <class Lengths>
    requires std::convertible_to<const Lengths&, SequenceLengths>
  RecurrentOutput forward(const Tensor& x, const Lengths& lengths) const {
    return forward(x, RecurrentState(), lengths);
  }
  template <class Lengths>
    requires std::convertible_to<const Lengths&, SequenceLengths>
  RecurrentOutput operator()(const Tensor& x, const Lengths& lengths) const {
    return forward(x, lengths);
  }
  /// lstm(x, {5, 2, 3}); lstm(x, {}) has no lengths.
  RecurrentOutput forward(const Tensor& x, std::initializer_list<std::int64_t> lengths) const {
    return forward(x, RecurrentState(), lengths.size() == 0 ? SequenceLengths() : SequenceLengths(lengths));
  }
  RecurrentOutput operator()(const Tensor& x, std::initializer_list<std::int64_t> lengths) const {
    return forward(x, lengths);
  }
  /// ShapeError for x of no steps, for x and states of other shapes, and unless there is a length from 1 to the steps
  /// of x for each sequence.
  RecurrentOutput compute(const Tensor& x, const RecurrentState& initial,
                          const SequenceLengths& lengths) const override;
  void visit(MemberVisitor&) override;

  std::vector<RecurrentWeights> weights;  ///< one set for each layer, and for each direction in it

 protected:
  /// ShapeError unless sizes and the number of layers are positive, DTypeError unless the type is floating, Error
  /// unless dropout is in [0, 1].
  RecurrentNetwork(const RecurrentKind&, std::int64_t in, std::int64_t hidden, Generator&, const RecurrentOptions&);

 private:
  RecurrentState check_initial(const Tensor& x, const RecurrentState&) const;
  RecurrentOutput run_layers(Tensor x, const RecurrentState& initial, const CachedVector<std::int64_t>& counts) const;

  const RecurrentKind* kind_;
  std::int64_t in_;
  std::int64_t hidden_;
  RecurrentOptions options_;
  Dropout dropout_;
};

/// Elman's network, of tanh or ReLU: formula and source at kTanhNetwork (nn/recurrent/recurrent_cell.h).
class RNN : public RecurrentNetwork {
 public:
  enum class Nonlinearity : std::uint8_t { tanh, relu };
  RNN(std::int64_t in, std::int64_t hidden, Generator& generator, const RecurrentOptions& options = {},
      Nonlinearity nonlinearity = Nonlinearity::tanh)
      : RecurrentNetwork(nonlinearity == Nonlinearity::tanh ? kTanhNetwork : kReluNetwork, in, hidden, generator,
                         options) {}
};

/// Formulas and sources at kLstmNetwork (nn/recurrent/recurrent_cell.h).
class LSTM : public RecurrentNetwork {
 public:
  LSTM(std::int64_t in, std::int64_t hidden, Generator& generator, const RecurrentOptions& options = {})
      : RecurrentNetwork(kLstmNetwork, in, hidden, generator, options) {}
};

/// Formulas and source at kGruNetwork (nn/recurrent/recurrent_cell.h).
class GRU : public RecurrentNetwork {
 public:
  GRU(std::int64_t in, std::int64_t hidden, Generator& generator, const RecurrentOptions& options = {})
      : RecurrentNetwork(kGruNetwork, in, hidden, generator, options) {}
};

}  // namespace tutti
