// SPDX-License-Identifier: Apache-2.0
// Recurrent networks over padded sequences of several lengths.
#include <tutti/nn/recurrent.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/modules/module_call.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/close.h>

#include <doctest/doctest.h>

#include <limits>
#include <string>

using namespace tutti;
using tutti::testing::check_close;

namespace {

constexpr std::int64_t kTime = 5;
constexpr std::int64_t kIn = 3;
constexpr std::int64_t kHidden = 2;

Tensor ids(const std::vector<std::int64_t>& values, const Shape& shape) { return index(values, shape); }

RecurrentOptions options(std::int64_t layers, bool bidirectional, bool batch_first = false) {
  return {.layers = layers,
          .bidirectional = bidirectional,
          .batch_first = batch_first,
          .dtype = DType::f64,
          .device = test_device()};
}

/// Sequence `i` of a batch in the second axis, as a batch of one.
Tensor sequence_of(const Tensor& x, std::int64_t i) { return slice(x, 1, i, i + 1); }

/// x with NaN behind the end of each sequence.
Tensor poisoned(const Tensor& x, const std::vector<std::int64_t>& lengths) {
  Tensor result = x;
  for (std::int64_t i = 0; i < std::ssize(lengths); ++i)
    if (const std::int64_t length = lengths[static_cast<std::size_t>(i)]; length < x.length(0))
      result = slice_assign(result, {range(length, none), i}, std::numeric_limits<double>::quiet_NaN());
  return result;
}

/// Outputs and states are those of each sequence alone, and nothing behind a sequence's end is seen.
template <class Network>
void check_alone(const Network& network, bool has_cell, const std::vector<std::int64_t>& lengths) {
  const auto batch = std::ssize(lengths);
  const auto entries = static_cast<std::int64_t>(network.weights.size());
  const Tensor x = spread({kTime, batch, kIn}, 1).detach();
  RecurrentState initial{spread({entries, batch, kHidden}, 2), {}};
  if (has_cell) initial.cell = spread({entries, batch, kHidden}, 3);
  const RecurrentOutput output = network.forward(poisoned(x, lengths), initial, lengths);
  REQUIRE(output.sequence.length(0) == kTime);
  for (std::int64_t i = 0; i < batch; ++i) {
    CAPTURE(i);
    const std::int64_t length = lengths[static_cast<std::size_t>(i)];
    RecurrentState own{sequence_of(initial.hidden, i), {}};
    if (has_cell) own.cell = sequence_of(initial.cell, i);
    const RecurrentOutput alone = network.forward(slice(sequence_of(x, i), 0, 0, length), own);
    check_close(slice(sequence_of(output.sequence, i), 0, 0, length), alone.sequence);
    for (const double value : slice(sequence_of(output.sequence, i), 0, length, kTime).template to_vector<double>())
      CHECK(value == 0.0);
    check_close(sequence_of(output.state.hidden, i), alone.state.hidden);
    CHECK(output.state.cell.defined() == has_cell);
    if (has_cell) check_close(sequence_of(output.state.cell, i), alone.state.cell);
  }
}

}  // namespace

TEST_CASE("lengths: each sequence gives what it gives alone, in any order, also beside NaN in the padding") {
  Generator random(1);
  for (const std::int64_t layers : {1, 2})
    for (const bool bidirectional : {false, true})
      for (const std::vector<std::int64_t>& lengths :
           {std::vector<std::int64_t>{3, 5, 1, 3}, {5, 5, 2}, {1, 1}, {4}, {2, 3}, {5, 5}}) {
        CAPTURE(layers);
        CAPTURE(bidirectional);
        CAPTURE(lengths.size());
        const RecurrentOptions chosen = options(layers, bidirectional);
        check_alone(RNN(kIn, kHidden, random, chosen), false, lengths);
        check_alone(RNN(kIn, kHidden, random, chosen, RNN::Nonlinearity::relu), false, lengths);
        check_alone(LSTM(kIn, kHidden, random, chosen), true, lengths);
        check_alone(GRU(kIn, kHidden, random, chosen), false, lengths);
      }
}

TEST_CASE("lengths: a list, vectors and tensors of any integers say the same, batch first too") {
  Generator random(2);
  const LSTM network(kIn, kHidden, random, options(1, true));
  const Tensor x = spread({kTime, 3, kIn}, 4);
  const RecurrentState initial{spread({2, 3, kHidden}, 5), spread({2, 3, kHidden}, 6)};
  const RecurrentOutput expected = network.forward(x, {}, {2, 5, 3});
  const auto same = [&](const RecurrentOutput& output) {
    check_close(output.sequence, expected.sequence);
    check_close(output.state.hidden, expected.state.hidden);
    check_close(output.state.cell, expected.state.cell);
  };
  same(network(x, {2, 5, 3}));
  same(network.forward(x, {2, 5, 3}));
  same(network.forward(x, std::vector<std::int64_t>{2, 5, 3}));
  same(network.forward(x, std::vector{2, 5, 3}));
  same(network.forward(x, ids({2, 5, 3}, {3})));
  same(network.forward(x, cast(ids({2, 5, 3}, {3}), DType::i32)));
  same(network.forward(x, RecurrentState(), ids({2, 5, 3}, {3})));
  same(call(network, x, std::vector{2, 5, 3}));
  same(call(network, x, RecurrentState(), SequenceLengths{2, 5, 3}));
  check_close(network(x, {}).sequence, network(x).sequence);
  check_close(network(x, {initial.hidden, initial.cell}).sequence, network(x, initial).sequence);
  LSTM turned(kIn, kHidden, random, options(1, true, true));
  turned.weights = network.weights;
  RecurrentOutput output = turned.forward(transpose(x, 0, 1), std::vector{2, 5, 3});
  output.sequence = transpose(output.sequence, 0, 1);
  same(output);
}

TEST_CASE("lengths: as long as all steps, they change nothing, and an empty batch has none") {
  Generator random(3);
  const GRU network(kIn, kHidden, random, options(2, true));
  const Tensor x = spread({kTime, 2, kIn}, 5);
  CHECK(network.forward(x, std::vector{5, 5}).sequence.to_vector<double>() ==
        network.forward(x).sequence.to_vector<double>());
  const Tensor nothing = constant({}, {kTime, 0, kIn});
  CHECK_THROWS_WITH_AS(network.forward(nothing, std::vector{1}), doctest::Contains("1 lengths for a batch of 0"),
                       ShapeError);
}

TEST_CASE("lengths: first and second gradients of the sequence, the initial state and the weights") {
  Generator random(4);
  const auto check = [](auto network, bool has_cell) {
    std::vector<Tensor> inputs{spread({3, 3, 2}, 1), spread({2, 3, 2}, 2)};
    if (has_cell) inputs.push_back(spread({2, 3, 2}, 3));
    const std::size_t first = inputs.size();
    for (const Tensor& parameter : network.parameters()) inputs.push_back(parameter);
    check_gradients(
        [&](const std::vector<Tensor>& in) {
          auto copy = network;
          std::size_t next = first;
          for (RecurrentWeights& weights : copy.weights)
            for (Tensor* weight :
                 {&weights.input_weight, &weights.hidden_weight, &weights.input_bias, &weights.hidden_bias})
              *weight = in[next++];
          const RecurrentOutput output = copy.forward(in[0], {in[1], has_cell ? in[2] : Tensor()}, {2, 3, 1});
          std::vector<Tensor> all{reshape(output.sequence, {-1}), reshape(output.state.hidden, {-1}) * 2};
          if (has_cell) all.push_back(reshape(output.state.cell, {-1}) * 3);
          return concatenate(all, 0);
        },
        inputs);
  };
  check(RNN(2, 2, random, options(1, true)), false);
  check(LSTM(2, 2, random, options(2, false)), true);
  check(GRU(2, 2, random, options(1, true)), false);
}

TEST_CASE("lengths: NaN in the padding reaches no gradient") {
  Generator random(5);
  LSTM network(kIn, kHidden, random, options(2, true));
  const std::vector<std::int64_t> lengths{2, 4};
  const Tensor x(poisoned(spread({kTime, 2, kIn}, 6), lengths).array().copy(), true);
  const RecurrentOutput output = network.forward(x, lengths);
  backward(sum(output.sequence) + sum(output.state.cell));
  for (const Tensor& parameter : network.parameters()) CHECK(all_true(isfinite(parameter.grad())).item<bool>());
  CHECK(all_true(isfinite(x.grad())).item<bool>());
  CHECK(sum(abs(slice(x.grad(), 0, 4, kTime))).item<double>() == 0.0);
}

TEST_CASE("lengths: what cannot be is told, with the sequence") {
  Generator random(6);
  const LSTM network(kIn, kHidden, random, options(1, false));
  const Tensor x = spread({kTime, 3, kIn}, 7);
  CHECK_THROWS_WITH_AS(network.forward(x, {}, {2, 0, 3}),
                       doctest::Contains("[LSTM] the length of sequence 1 is 0, not from 1 to the 5 steps of x"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(network.forward(x, {}, {2, 5, 6}), doctest::Contains("the length of sequence 2 is 6"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(network.forward(x, {}, {-1, 5, 5}), doctest::Contains("the length of sequence 0 is -1"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(network.forward(x, {}, {2, 5}), doctest::Contains("[LSTM] 2 lengths for a batch of 3"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(network.forward(x, ids({2, 5, 3}, {1, 3})), doctest::Contains("[lengths] need one axis"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(network.forward(x, leaf({2, 5, 3})),
                       doctest::Contains("[lengths] are f64: they must be integers"), DTypeError);
}
