// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/recurrent.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/adam.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/close.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace tutti;

namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// Row `row` of W x + b.
double affine(const Values& weight, const Values& bias, const Values& x, std::size_t row) {
  double sum = bias.empty() ? 0 : bias[row];
  for (std::size_t k = 0; k < x.size(); ++k) sum += weight[row * x.size() + k] * x[k];
  return sum;
}

enum class Kind { tanh, relu, lstm, gru };

/// One example's network in one direction: a number at a time, as PyTorch's documentation has it.
struct Reference {
  Kind kind;
  Values input_weight, hidden_weight, input_bias, hidden_bias;

  Reference(Kind which, const RecurrentWeights& weights)
      : kind(which),
        input_weight(weights.input_weight.to_vector<double>()),
        hidden_weight(weights.hidden_weight.to_vector<double>()),
        input_bias(weights.input_bias.defined() ? weights.input_bias.to_vector<double>() : Values()),
        hidden_bias(weights.hidden_bias.defined() ? weights.hidden_bias.to_vector<double>() : Values()) {}

  void step(const Values& x, Values& h, Values& c) const {
    const std::size_t n = h.size();
    const auto from_x = [&](std::size_t gate, std::size_t j) {
      return affine(input_weight, input_bias, x, gate * n + j);
    };
    const auto from_h = [&, before = h](std::size_t gate, std::size_t j) {
      return affine(hidden_weight, hidden_bias, before, gate * n + j);
    };
    const auto both = [&](std::size_t gate, std::size_t j) { return from_x(gate, j) + from_h(gate, j); };
    for (std::size_t j = 0; j < n; ++j) {
      if (kind == Kind::tanh) h[j] = std::tanh(both(0, j));
      if (kind == Kind::relu) h[j] = std::max(both(0, j), 0.0);
      if (kind == Kind::lstm) {
        c[j] = logistic(both(1, j)) * c[j] + logistic(both(0, j)) * std::tanh(both(2, j));
        h[j] = logistic(both(3, j)) * std::tanh(c[j]);
      }
      if (kind == Kind::gru) {
        const double r = logistic(both(0, j));
        const double z = logistic(both(1, j));
        h[j] = (1 - z) * std::tanh(from_x(2, j) + r * from_h(2, j)) + z * h[j];
      }
    }
  }
};

struct ReferenceRun {
  std::vector<Values> sequence;  // of one example
  std::vector<Values> hidden;    // after the last step, for each layer and direction
  std::vector<Values> cell;
};

ReferenceRun run_reference(Kind kind, const RecurrentNetwork& network, std::size_t directions,
                           std::vector<Values> sequence, std::vector<Values> hidden, std::vector<Values> cell) {
  for (std::size_t begin = 0; begin < network.weights.size(); begin += directions) {
    std::vector<Values> outputs(sequence.size());
    for (std::size_t i = begin; i < begin + directions; ++i) {
      const Reference reference(kind, network.weights[i]);
      for (std::size_t step = 0; step < sequence.size(); ++step) {
        const std::size_t t = i > begin ? sequence.size() - 1 - step : step;
        reference.step(sequence[t], hidden[i], cell[i]);
        outputs[t].insert(outputs[t].end(), hidden[i].begin(), hidden[i].end());
      }
    }
    sequence = outputs;
  }
  return {sequence, hidden, cell};
}

constexpr std::int64_t kTime = 5;
constexpr std::int64_t kBatch = 3;
constexpr std::int64_t kIn = 4;
constexpr std::int64_t kHidden = 2;

/// The values of one example: [first][batch][values] -> [first].
std::vector<Values> example_of(const Tensor& x, std::int64_t example) {
  std::vector<Values> rows;
  for (std::int64_t i = 0; i < x.length(0); ++i) rows.push_back(x[{i, example}].to_vector<double>());
  return rows;
}

void check_close(const std::vector<Values>& found, const std::vector<Values>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) testing::check_close(found[i], expected[i]);
}

void check_network(Kind kind, const RecurrentNetwork& network, std::size_t directions, bool batch_first) {
  const auto entries = static_cast<std::int64_t>(network.weights.size());
  const Tensor x = spread({kTime, kBatch, kIn}, 1);
  RecurrentState initial{spread({entries, kBatch, kHidden}, 2), {}};
  if (kind == Kind::lstm) initial.cell = spread({entries, kBatch, kHidden}, 3);
  const RecurrentOutput output = network.forward(batch_first ? transpose(x, 0, 1) : x, initial);
  const Tensor sequence = batch_first ? transpose(output.sequence, 0, 1) : output.sequence;
  REQUIRE(sequence.shape() == Shape{kTime, kBatch, kHidden * static_cast<std::int64_t>(directions)});
  REQUIRE(output.state.hidden.shape() == Shape{entries, kBatch, kHidden});
  CHECK(output.state.cell.defined() == (kind == Kind::lstm));
  for (std::int64_t example = 0; example < kBatch; ++example) {
    const Tensor& cell = initial.cell.defined() ? initial.cell : initial.hidden;
    const ReferenceRun expected = run_reference(kind, network, directions, example_of(x, example),
                                                example_of(initial.hidden, example), example_of(cell, example));
    check_close(example_of(sequence, example), expected.sequence);
    check_close(example_of(output.state.hidden, example), expected.hidden);
    if (kind == Kind::lstm) check_close(example_of(output.state.cell, example), expected.cell);
  }
}

RecurrentOptions options(std::int64_t layers, bool bidirectional, bool bias = true, bool batch_first = false) {
  return {.layers = layers,
          .bidirectional = bidirectional,
          .batch_first = batch_first,
          .bias = bias,
          .dtype = DType::f64,
          .device = test_device()};
}

/// First and second derivatives with respect to the sequence, the initial state and all weights.
template <class Network> void check_network_gradients(Network network, bool has_cell) {
  std::vector<Tensor> inputs{spread({3, 2, 2}, 1), spread({2, 2, 2}, 2)};
  if (has_cell) inputs.push_back(spread({2, 2, 2}, 3));
  const std::size_t first = inputs.size();
  for (const Tensor& parameter : network.parameters()) inputs.push_back(parameter);
  check_gradients(
      [&](const std::vector<Tensor>& in) {
        Network copy = network;
        std::size_t next = first;
        for (RecurrentWeights& weights : copy.weights)
          for (Tensor* weight :
               {&weights.input_weight, &weights.hidden_weight, &weights.input_bias, &weights.hidden_bias})
            *weight = in[next++];
        const RecurrentOutput output = copy.forward(in[0], {in[1], has_cell ? in[2] : Tensor()});
        const Tensor all =
            concatenate(std::vector<Tensor>{reshape(output.sequence, {-1}), reshape(output.state.hidden, {-1}) * 2}, 0);
        return has_cell ? concatenate(std::vector<Tensor>{all, reshape(output.state.cell, {-1}) * 3}, 0) : all;
      },
      inputs);
}

}  // namespace

TEST_CASE("recurrent networks compute what their formulas say") {
  Generator random(1);
  for (const std::int64_t layers : {1, 2})
    for (const bool bidirectional : {false, true})
      for (const bool bias : {true, false}) {
        CAPTURE(layers);
        CAPTURE(bidirectional);
        CAPTURE(bias);
        const RecurrentOptions chosen = options(layers, bidirectional, bias, layers == 2);
        const std::size_t directions = bidirectional ? 2 : 1;
        check_network(Kind::tanh, RNN(kIn, kHidden, random, chosen), directions, layers == 2);
        check_network(Kind::relu, RNN(kIn, kHidden, random, chosen, RNN::Nonlinearity::relu), directions, layers == 2);
        check_network(Kind::lstm, LSTM(kIn, kHidden, random, chosen), directions, layers == 2);
        check_network(Kind::gru, GRU(kIn, kHidden, random, chosen), directions, layers == 2);
      }
}

TEST_CASE("recurrent networks: first and second gradients") {
  Generator random(2);
  check_network_gradients(RNN(2, 2, random, options(1, true)), false);
  check_network_gradients(LSTM(2, 2, random, options(2, false)), true);
  check_network_gradients(GRU(2, 2, random, options(1, true)), false);
}

TEST_CASE("recurrent networks: names, order and bounds of parameters are PyTorch's") {
  Generator random(3);
  LSTM network(3, 4, random, {.layers = 2, .bidirectional = true, .device = test_device()});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : network.named_parameters()) {
    names.push_back(name);
    for (const float value : tensor.to_vector<float>()) CHECK(std::abs(value) <= 0.5F);
  }
  CHECK(names == std::vector<std::string>{"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0",
                                          "weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse",
                                          "bias_hh_l0_reverse", "weight_ih_l1", "weight_hh_l1", "bias_ih_l1",
                                          "bias_hh_l1", "weight_ih_l1_reverse", "weight_hh_l1_reverse",
                                          "bias_ih_l1_reverse", "bias_hh_l1_reverse"});
  CHECK(network.weights[0].input_weight.shape() == Shape{16, 3});
  CHECK(network.weights[3].input_weight.shape() == Shape{16, 8});
  GRU without(3, 4, random, {.bias = false, .device = test_device()});
  CHECK(without.named_parameters().size() == 2);
  CHECK(without.weights[0].hidden_weight.shape() == Shape{12, 4});
}

TEST_CASE("recurrent networks: a sequence in two parts is the sequence") {
  Generator random(4);
  const LSTM network(kIn, kHidden, random, options(2, false));
  const Tensor x = spread({8, 2, kIn}, 5);
  const RecurrentOutput whole = network.forward(x);
  const RecurrentOutput first = network.forward(slice(x, 0, 0, 3));
  const RecurrentOutput second = network.forward(slice(x, 0, 3, 8), first.state);
  check_close({second.state.cell.to_vector<double>()}, {whole.state.cell.to_vector<double>()});
  check_close({second.sequence.to_vector<double>()}, {slice(whole.sequence, 0, 3, 8).to_vector<double>()});
}

TEST_CASE("recurrent cells: a program may write to one state of a step and differentiate by the other") {
  Generator random(6);
  LSTMCell cell(kIn, kHidden, random, {.dtype = DType::f64, .device = test_device()});
  const RecurrentState after = cell(spread({2, kIn}, 1));
  const Tensor loss = sum(square(after.cell));
  after.hidden.detach().fill_(0);
  CHECK_NOTHROW(backward(loss));
  CHECK(cell.weights.input_weight.grad().defined());
}

TEST_CASE("recurrent cells are the steps of a network") {
  Generator random(5);
  const RecurrentCellOptions chosen{.dtype = DType::f64, .device = test_device()};
  LSTMCell cell(kIn, kHidden, random, chosen);
  LSTM network(kIn, kHidden, random, options(1, false));
  network.weights[0] = cell.weights;
  const Tensor x = spread({4, 2, kIn}, 6);
  RecurrentState state;
  for (std::int64_t t = 0; t < 4; ++t) state = cell.forward(x[t], state);
  const RecurrentOutput output = network.forward(x);
  check_close({output.state.hidden.to_vector<double>()}, {state.hidden.to_vector<double>()});
  check_close({output.state.cell.to_vector<double>()}, {state.cell.to_vector<double>()});
  CHECK(cell.named_parameters()[1].first == "weight_hh");
  CHECK_FALSE(GRUCell(kIn, kHidden, random, chosen).forward(x[0]).cell.defined());
  CHECK_THROWS_WITH_AS(cell.forward(x), "[LSTMCell] needs x [batch, 4], got [4, 2, 4]", ShapeError);
  CHECK_THROWS_WITH_AS(RNNCell(kIn, kHidden, random, chosen).forward(x[0], {{}, x[0]}),
                       doctest::Contains("[RNNCell] has no cell state, but one is given"), ShapeError);
}

TEST_CASE("recurrent networks: dropout between layers, while training only") {
  Generator random(6);
  RecurrentOptions chosen = options(2, false);
  chosen.dropout = 0.5;
  LSTM network(kIn, 8, random, chosen);
  const Tensor x = spread({3, 2, kIn}, 7);
  const auto run = [&] { return network.forward(x).sequence.to_vector<double>(); };
  CHECK(run() != run());
  network.eval();
  CHECK(run() == run());
  LSTM lower(kIn, 8, random, options(1, false));
  lower.weights[0] = network.weights[0];
  network.train();
  const Tensor below = squeeze(slice(network.forward(x).state.hidden, 0, 0, 1), {0});
  CHECK(below.to_vector<double>() == lower.forward(x).state.hidden.to_vector<double>());  // not inside a layer
}

TEST_CASE("an LSTM learns what was said at the beginning") {
  Generator random(7);
  LSTM network(1, 8, random, {.device = test_device()});
  const Tensor x(random.uniform({6, 16, 1}, DType::f32, test_device(), -1, 1));
  const Tensor wanted = x[0];
  const auto loss_now = [&] {
    const Tensor last = network.forward(x).state.hidden;
    return mean(square(slice(squeeze(last, {0}), 1, 0, 1) - wanted));
  };
  const float before = loss_now().item<float>();
  Adam optimizer(network.parameters(), 0.03);
  for (int step = 0; step < 100; ++step) {
    network.zero_grad();
    backward(loss_now());
    optimizer.step();
  }
  CHECK(loss_now().item<float>() < 0.2F * before);
}

TEST_CASE("recurrent networks name what does not fit") {
  Generator random(8);
  const LSTM network(4, 2, random, options(2, true));
  CHECK_THROWS_WITH_AS(network.forward(constant(Values(8, 0), {2, 4})),
                       doctest::Contains("[LSTM] needs x [time, batch, 4] of a step or more, got [2, 4]"), ShapeError);
  CHECK_THROWS_AS(network.forward(constant({}, {0, 3, 4})), ShapeError);
  const Tensor x = spread({3, 2, 4}, 9);
  CHECK_THROWS_WITH_AS(
      network.forward(x, {x, {}}),
      doctest::Contains(
          "[LSTM] the initial hidden state is [3, 2, 4], not [layers * directions, batch, hidden] = [4, 2, 2]"),
      ShapeError);
  CHECK_THROWS_AS(GRU(4, 2, random, options(1, false)).forward(x, {{}, x}), ShapeError);
  CHECK_THROWS_AS(LSTM(0, 2, random), ShapeError);
  CHECK_THROWS_AS(LSTM(1, 2, random, {.layers = 0}), ShapeError);
  CHECK_THROWS_AS(LSTM(1, 2, random, {.dtype = DType::i32}), DTypeError);
  CHECK_THROWS_AS(LSTM(1, 2, random, {.dropout = 2}), Error);
}
