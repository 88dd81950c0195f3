// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace tutti {
namespace {

using Values = std::vector<double>;

constexpr RecurrentGates kAll[] = {RecurrentGates::tanh, RecurrentGates::relu, RecurrentGates::lstm,
                                   RecurrentGates::gru};

std::size_t blocks_of(RecurrentGates gates) {
  return gates == RecurrentGates::lstm ? 4 : gates == RecurrentGates::gru ? 3 : 1;
}

template <class T> Array spread(const Shape& shape, double phase) {
  std::vector<T> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(std::sin(phase + 1.7 * static_cast<double>(i)));
  return Array::from(values, shape, test_device());
}

template <class T> Values values_of(const Array& array) {
  const auto typed = array.to_vector<T>();
  return Values(typed.begin(), typed.end());
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// One sequence, its steps' parts of the input in the order in which they are taken.
struct Sequence {
  Values hidden;
  Values cell;

  template <class Product> Values step(RecurrentGates gates, const double* input, const Product& product) {
    const std::size_t length = hidden.size();
    Values after(length);
    for (std::size_t i = 0; i < length; ++i) {
      const auto from = [&](std::size_t gate) { return input[gate * length + i]; };
      const auto own = [&](std::size_t gate) { return product(hidden, gate * length + i); };
      const auto sum = [&](std::size_t gate) { return from(gate) + own(gate); };
      switch (gates) {
        case RecurrentGates::tanh: after[i] = std::tanh(sum(0)); break;
        case RecurrentGates::relu: after[i] = std::max(0.0, sum(0)); break;
        case RecurrentGates::lstm:
          cell[i] = sigmoid(sum(1)) * cell[i] + sigmoid(sum(0)) * std::tanh(sum(2));
          after[i] = sigmoid(sum(3)) * std::tanh(cell[i]);
          break;
        case RecurrentGates::gru: {
          const double update = sigmoid(sum(1));
          const double fresh = std::tanh(from(2) + sigmoid(sum(0)) * own(2));
          after[i] = (1 - update) * fresh + update * hidden[i];
        }
      }
    }
    return hidden = after;
  }
};

double greatest_difference(const Values& found, const Values& expected) {
  REQUIRE(found.size() == expected.size());
  double greatest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) greatest = std::max(greatest, std::abs(found[i] - expected[i]));
  return greatest;
}

/// Sequences of 4, 3 and 1 steps, packed, against one after the other by the formulas.
template <class T> void check_steps(RecurrentGates gates, bool reversed, bool has_bias, std::int64_t length) {
  const CachedVector<std::int64_t> counts{3, 2, 2, 1};
  const std::int64_t batch = 3;
  const std::int64_t rows = 8;
  const std::size_t blocks = blocks_of(gates);
  const auto columns = static_cast<std::int64_t>(blocks) * length;
  const bool has_cell = gates == RecurrentGates::lstm;
  const RecurrentOperands operands{spread<T>({rows, columns}, 1), spread<T>({batch, length}, 2),
                                   has_cell ? spread<T>({batch, length}, 3) : Array(), spread<T>({columns, length}, 4),
                                   has_bias ? spread<T>({columns}, 5) : Array()};
  const RecurrentRun run = recurrent_steps({gates, counts, reversed}, operands, false);
  CHECK_FALSE(run.kept.defined());
  REQUIRE(run.output.shape() == Shape{rows + (has_cell ? 2 : 1) * batch, length});

  const Values input = values_of<T>(operands.input_part);
  const Values weight = values_of<T>(operands.hidden_weight);
  const Values bias = has_bias ? values_of<T>(operands.hidden_bias) : Values(static_cast<std::size_t>(columns), 0.0);
  const auto product = [&](const Values& hidden, std::size_t row) {
    double sum = bias[row];
    for (std::size_t j = 0; j < hidden.size(); ++j) sum += weight[row * hidden.size() + j] * hidden[j];
    return sum;
  };
  const Values hidden = values_of<T>(operands.hidden);
  const Values cell = has_cell ? values_of<T>(operands.cell) : hidden;
  const auto width = static_cast<std::size_t>(length);
  Values expected(static_cast<std::size_t>(run.output.size()));
  for (std::size_t example = 0; example < 3; ++example) {
    const auto part = [&](const Values& all) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(example * width);
      return Values(first, first + length);
    };
    Sequence sequence{part(hidden), part(cell)};
    const auto store = [&](const Values& state, std::size_t row) {
      std::copy(state.begin(), state.end(), expected.begin() + static_cast<std::ptrdiff_t>(row * width));
    };
    std::vector<std::size_t> places;
    std::size_t first = 0;
    for (const std::int64_t count : counts) {
      if (static_cast<std::int64_t>(example) < count) places.push_back(first + example);
      first += static_cast<std::size_t>(count);
    }
    if (reversed) std::reverse(places.begin(), places.end());
    for (const std::size_t place : places)
      store(sequence.step(gates, input.data() + place * static_cast<std::size_t>(columns), product), place);
    store(sequence.hidden, 8 + example);
    if (has_cell) store(sequence.cell, 11 + example);
  }
  CHECK(greatest_difference(values_of<T>(run.output), expected) < (sizeof(T) == 4 ? 1e-5 : 1e-12));

  const RecurrentRun again = recurrent_steps({gates, counts, reversed}, operands, true);
  CHECK(values_of<T>(again.output) == values_of<T>(run.output));
}

TEST_CASE_TEMPLATE("recurrent_steps: each kind, packed, from both ends", T, float, double) {
  for (const RecurrentGates gates : kAll)
    for (const bool reversed : {false, true})
      for (const bool has_bias : {false, true})
        for (const std::int64_t length : {1, 5, 16, 37}) {
          CAPTURE(static_cast<int>(gates));
          CAPTURE(reversed);
          CAPTURE(has_bias);
          CAPTURE(length);
          check_steps<T>(gates, reversed, has_bias, length);
        }
}

TEST_CASE("recurrent_steps: operands of any layout; no step, no sequence, no state") {
  const Array input = spread<double>({12, 4}, 1);
  const Array weight = spread<double>({12, 3}, 2);
  const Array state = spread<double>({3, 2}, 3);
  const RecurrentSteps steps{RecurrentGates::lstm, {2, 2}};
  const RecurrentOperands views{input.transpose(), state.transpose(), state.transpose(), weight, {}};
  const RecurrentOperands copies{
      input.transpose().copy(), state.transpose().copy(), state.transpose().copy(), weight, {}};
  CHECK(values_of<double>(recurrent_steps(steps, views, true).output) ==
        values_of<double>(recurrent_steps(steps, copies, true).output));
  const auto empty = [](const Shape& shape) { return Array::zeros(shape, DType::f32, test_device()); };
  for (const auto& [counts, batch, length] : std::vector<std::tuple<CachedVector<std::int64_t>, int, int>>{
           {{}, 2, 3}, {{0, 0}, 0, 3}, {{1, 0}, 2, 3}, {{2, 1}, 2, 0}}) {
    const RecurrentSteps few{RecurrentGates::gru, counts};
    const RecurrentOperands operands{
        empty({few.rows(), 3 * length}), empty({batch, length}), {}, empty({3 * length, length}), empty({3 * length})};
    const RecurrentRun run = recurrent_steps(few, operands, true);
    CHECK(run.output.shape() == Shape{few.rows() + batch, length});
    const RecurrentOperands gradients = recurrent_steps_gradient(few, operands, run, run.output);
    CHECK(gradients.hidden_weight.shape() == Shape{3 * length, length});
    for (const double value : values_of<float>(gradients.hidden_weight)) CHECK(value == 0);
    CHECK(gradients.hidden_bias.shape() == Shape{3 * length});
  }
}

TEST_CASE("recurrent_steps: what does not fit is named") {
  const auto of = [](const Shape& shape, DType dtype = DType::f32) {
    return Array::zeros(shape, dtype, test_device());
  };
  const RecurrentOperands right{of({3, 8}), of({2, 2}), of({2, 2}), of({8, 2}), of({8})};
  const RecurrentSteps steps{RecurrentGates::lstm, {2, 1}};
  CHECK_NOTHROW(recurrent_steps(steps, right, false));
  const auto refused = [&](auto change, const char* text) {
    RecurrentOperands wrong = right;
    RecurrentSteps wrong_steps = steps;
    change(wrong, wrong_steps);
    CHECK_THROWS_WITH_AS(recurrent_steps(wrong_steps, wrong, false), doctest::Contains(text), ShapeError);
  };
  refused([&](auto& o, auto&) { o.input_part = of({3, 6}); }, "the input's part");
  refused([&](auto& o, auto&) { o.hidden_weight = of({8, 3}); }, "the weight");
  refused([&](auto& o, auto&) { o.cell = of({1, 2}); }, "the cell state");
  refused([&](auto& o, auto&) { o.hidden_bias = of({2}); }, "the bias");
  refused(
      [&](auto& o, auto& s) {
        s.counts = {1, 2};
        o.input_part = of({3, 8});
      },
      "must descend");
  refused(
      [&](auto& o, auto& s) {
        s.counts = {3};
        o.input_part = of({3, 8});
      },
      "of 2");
  RecurrentOperands mixed = right;
  mixed.hidden_weight = of({8, 2}, DType::f64);
  CHECK_THROWS_AS(recurrent_steps(steps, mixed, false), DTypeError);
  const RecurrentOperands narrow{of({3, 8}, DType::bf16), of({2, 2}, DType::bf16), of({2, 2}, DType::bf16),
                                 of({8, 2}, DType::bf16), of({8}, DType::bf16)};
  CHECK_THROWS_WITH_AS(recurrent_steps(steps, narrow, false), doctest::Contains("f32 and f64"), DTypeError);
  const RecurrentRun run = recurrent_steps(steps, right, true);
  CHECK_THROWS_WITH_AS(recurrent_steps_gradient(steps, right, run, of({3, 2})), doctest::Contains("the gradient"),
                       ShapeError);
  const RecurrentRun kept_nothing = recurrent_steps(steps, right, false);
  CHECK_THROWS_AS(recurrent_steps_gradient(steps, right, kept_nothing, run.output), Error);
  const RecurrentSteps other{RecurrentGates::tanh, {2, 1}};
  const RecurrentOperands of_other{of({3, 2}), of({2, 2}), {}, of({2, 2}), of({2})};
  CHECK_THROWS_WITH_AS(recurrent_steps_gradient(other, of_other, run, of({5, 2})),
                       doctest::Contains("what the run kept"), ShapeError);
}

}  // namespace
}  // namespace tutti
