// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/recurrent.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/composed_calls.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/close.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <optional>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

constexpr RecurrentGates kAll[] = {RecurrentGates::tanh, RecurrentGates::relu, RecurrentGates::lstm,
                                   RecurrentGates::gru};

std::int64_t blocks_of(RecurrentGates gates) {
  return gates == RecurrentGates::lstm ? 4 : gates == RecurrentGates::gru ? 3 : 1;
}

/// The part of the input, hidden state, cell, weight and bias of sequences of 3 and 2 steps.
Inputs operands_of(RecurrentGates gates, std::int64_t hidden) {
  const std::int64_t columns = blocks_of(gates) * hidden;
  return {small({5, columns}, 1), small({2, hidden}, 2), small({2, hidden}, 3), small({columns, hidden}, 4),
          small({columns}, 5)};
}

/// All results in one row, each with another factor.
Tensor all_of(const RecurrentSteps& steps, const Inputs& in) {
  const bool has_cell = steps.gates == RecurrentGates::lstm;
  const RecurrentStates states = recurrent(steps, {in[0], in[1], has_cell ? in[2] : Tensor(), in[3], in[4]});
  CHECK(states.cell.defined() == has_cell);
  Inputs parts{reshape(states.outputs, {-1}), reshape(states.hidden, {-1}) * 2};
  if (has_cell) parts.push_back(reshape(states.cell, {-1}) * 3);
  return concatenate(parts);
}

TEST_CASE("recurrent: first and second derivatives") {
  for (const RecurrentGates gates : kAll)
    for (const bool reversed : {false, true}) {
      CAPTURE(static_cast<int>(gates));
      CAPTURE(reversed);
      const RecurrentSteps steps{gates, {2, 2, 1}, reversed};
      check_gradients([&](const Inputs& in) { return all_of(steps, in); }, operands_of(gates, 2));
    }
}

TEST_CASE("recurrent: kernels give what the composition gives, and its gradients") {
  for (const RecurrentGates gates : kAll)
    for (const bool reversed : {false, true}) {
      CAPTURE(static_cast<int>(gates));
      CAPTURE(reversed);
      const RecurrentSteps steps{gates, {2, 2, 1}, reversed};
      const Inputs in = operands_of(gates, 19);
      std::vector<Values> found[2];
      for (const bool composes : {false, true}) {
        std::optional<ComposedCalls> scope;
        if (composes) scope.emplace();
        const Tensor y = all_of(steps, in);
        found[composes].push_back(y.to_vector<double>());
        const std::vector<Tensor> gradients = grad(sum(square(y)), in, {.allow_unused = true});
        for (const Tensor& each : gradients)
          if (each.defined()) found[composes].push_back(each.to_vector<double>());
      }
      REQUIRE(found[0].size() == found[1].size());
      CHECK(found[0].size() == (gates == RecurrentGates::lstm ? 6 : 5));
      for (std::size_t i = 0; i < found[0].size(); ++i) {
        CAPTURE(i);
        testing::check_close(found[0][i], found[1][i]);
      }
    }
}

TEST_CASE("recurrent: an operand that is made of another has its own gradient alone, also a second time") {
  const RecurrentSteps steps{RecurrentGates::gru, {2, 2, 1}, false};
  check_gradients(
      [&](const Inputs& in) {
        const Tensor state = slice(slice(in[0], 0, 0, 2), 1, 0, 2) * in[1];
        return all_of(steps, {in[0], state, {}, in[2], in[3]});
      },
      {small({5, 6}, 1), small({2, 2}, 2), small({6, 2}, 4), small({6}, 5)});
}

TEST_CASE("recurrent: without a bias, without steps, of which some need no gradient") {
  const RecurrentSteps steps{RecurrentGates::tanh, {2, 2, 1}, false};
  check_gradients(
      [&](const Inputs& in) {
        return recurrent(steps, {in[0], small({2, 2}, 2).detach(), {}, in[1], {}}).outputs;
      },
      {small({5, 2}, 1), small({2, 2}, 4)});
  for (const RecurrentGates gates : kAll) {
    const std::int64_t columns = blocks_of(gates) * 2;
    for (const bool composes : {false, true}) {
      std::optional<ComposedCalls> scope;
      if (composes) scope.emplace();
      const Tensor state = small({2, 2}, 2);
      const RecurrentStates none = recurrent({gates, {}}, {leaf({}, {0, columns}),
                                                           state,
                                                           gates == RecurrentGates::lstm ? state : Tensor(),
                                                           small({columns, 2}, 4),
                                                           {}});
      CHECK(none.outputs.shape() == Shape{0, 2});
      CHECK(none.hidden.to_vector<double>() == state.to_vector<double>());
    }
  }
}

TEST_CASE("recurrent: gradients where they are to end, of weights laid out in any way; frozen ones have none") {
  const RecurrentSteps steps{RecurrentGates::gru, {2, 2, 1}, false};
  for (const bool transposed : {false, true}) {
    CAPTURE(transposed);
    const Inputs in = operands_of(RecurrentGates::gru, 3);
    const Tensor weight = transposed ? small({3, 9}, 6) : in[3];
    const auto loss = [&](const Tensor& used) {
      return sum(
          square(recurrent(steps, {in[0], in[1], {}, transposed ? transpose(used) : used, in[4].detach()}).outputs));
    };
    const Values expected = grad(loss(weight), {weight})[0].to_vector<double>();
    const Array place = Array::zeros(weight.shape(), DType::f64, test_device());
    weight.gradient_slot().destination = place;
    backward(loss(weight));
    CHECK(weight.grad().array().storage() == place.storage());
    testing::check_close(place.to_vector<double>(), expected);
    weight.gradient_slot().destination = Array();
    const Tensor frozen = weight.detach();
    CHECK(grad(loss(frozen), {in[0]})[0].to_vector<double>() == grad(loss(weight), {in[0]})[0].to_vector<double>());
  }
}

TEST_CASE("recurrent: narrow types, several types and an Autocast compute as their operations do") {
  const RecurrentSteps steps{RecurrentGates::lstm, {2, 2, 1}, false};
  const auto with = [&](DType input, DType weight) {
    Inputs in = operands_of(RecurrentGates::lstm, 3);
    for (Tensor& each : in) each = cast(each.detach(), weight);
    in[0] = cast(in[0], input);
    return recurrent(steps, {in[0], in[1], in[2], in[3], in[4]}).outputs;
  };
  const Values exact = with(DType::f64, DType::f64).to_vector<double>();
  CHECK(with(DType::bf16, DType::bf16).dtype() == DType::bf16);
  testing::check_close(cast(with(DType::bf16, DType::bf16), DType::f64).to_vector<double>(), exact, 0.03);
  CHECK(with(DType::f64, DType::f32).dtype() == DType::f64);
  testing::check_close(with(DType::f64, DType::f32).to_vector<double>(), exact, 1e-5);
  const Autocast narrow(DType::bf16);
  const Values rounded = cast(with(DType::f32, DType::f32), DType::f64).to_vector<double>();
  testing::check_close(rounded, exact, 0.03);
  CHECK(rounded != cast(with(DType::f64, DType::f64), DType::f64).to_vector<double>());
}

TEST_CASE("recurrent: under an Autocast results and gradients are those of its operations but for rounding") {
  for (const RecurrentGates gates : {RecurrentGates::lstm, RecurrentGates::gru})
    for (const CachedVector<std::int64_t>& counts : {CachedVector<std::int64_t>{20, 20, 17},
                                                     {3, 2, 1},
                                                     {6, 6, 3, 2}}) {  // packed weights, and read where they are
      CAPTURE(static_cast<int>(gates));
      CAPTURE(counts.size());
      const RecurrentSteps steps{gates, counts, false};
      const std::int64_t batch = counts.front();
      const std::int64_t columns = blocks_of(gates) * 24;
      const bool has_cell = gates == RecurrentGates::lstm;
      Inputs in{small({steps.rows(), columns}, 1), small({batch, 24}, 2), small({columns, 24}, 4), small({columns}, 5)};
      if (has_cell) in.push_back(small({batch, 24}, 3));
      for (Tensor& each : in) each = Tensor(each.array().cast(DType::f32), true);
      const auto found_by = [&](bool composes) {
        std::optional<ComposedCalls> scope;
        if (composes) scope.emplace();
        const Autocast narrow(DType::bf16);
        const RecurrentStates states = recurrent(steps, {in[0], in[1], has_cell ? in[4] : Tensor(), in[2], in[3]});
        std::vector<Values> found{cast(states.outputs, DType::f64).to_vector<double>()};
        for (const Tensor& each : grad(sum(square(cast(states.outputs, DType::f32))), in))
          found.push_back(cast(each, DType::f64).to_vector<double>());
        return found;
      };
      std::vector<Values> found = found_by(false);
      std::vector<Values> expected = found_by(true);
      for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        const double most = std::abs(*std::ranges::max_element(expected[i], {}, [](double x) { return std::abs(x); }));
        CHECK(most > 0);
        for (Values* each : {&found[i], &expected[i]})
          for (double& value : *each) value /= most;
        testing::check_close(found[i], expected[i], 0.02);
      }
    }
}

TEST_CASE("recurrent: types of results are those of its operations, and gradients reach leaves of any type") {
  constexpr DType kSome[] = {DType::f32, DType::bf16, DType::f64};
  for (const RecurrentGates gates : kAll)
    for (const DType input : {DType::f32, DType::bf16, DType::f16, DType::f64})
      for (const DType state : kSome)
        for (const DType weight : kSome)
          for (const auto& [narrow, bias, counts] :
               std::vector<std::tuple<DType, DType, CachedVector<std::int64_t>>>{{DType::f32, weight, {2, 2, 1}},
                                                                                 {DType::bf16, weight, {2, 2, 1}},
                                                                                 {DType::bf16, weight, {1, 1, 1, 1, 1}},
                                                                                 {DType::f16, DType::f32, {2, 2, 1}},
                                                                                 {DType::bf16, DType::bf16, {2, 2, 1}},
                                                                                 {DType::bf16, weight, {}}}) {
            CAPTURE(static_cast<int>(gates));
            CAPTURE(to_string(input));
            CAPTURE(to_string(state));
            CAPTURE(to_string(weight));
            CAPTURE(to_string(narrow));
            CAPTURE(counts.size());
            const bool has_cell = gates == RecurrentGates::lstm;
            Inputs in = operands_of(gates, 3);
            const DType types[] = {input, state, has_cell ? DType::f32 : state, weight, bias};
            if (counts.empty()) in[0] = slice(in[0], 0, 0, 0);
            for (std::size_t i = 0; i < in.size(); ++i) in[i] = Tensor(in[i].array().cast(types[i]).copy(), true);
            const auto run = [&] {
              const Autocast as(narrow);
              return recurrent({gates, counts, false}, {in[0], in[1], has_cell ? in[2] : Tensor(), in[3], in[4]});
            };
            const auto composed = [&] {
              const ComposedCalls calls;
              return run();
            };
            const RecurrentStates found = run();
            const RecurrentStates expected = composed();
            CHECK(found.outputs.dtype() == expected.outputs.dtype());
            CHECK(found.hidden.dtype() == expected.hidden.dtype());
            CHECK(found.cell.defined() == expected.cell.defined());
            if (has_cell) CHECK(found.cell.dtype() == expected.cell.dtype());
            testing::check_close(cast(found.outputs, DType::f64).to_vector<double>(),
                                 cast(expected.outputs, DType::f64).to_vector<double>(), 0.05);
            if (counts.empty()) continue;  // reads no weight
            backward(sum(cast(found.outputs, DType::f32)));
            if (!has_cell) in.erase(in.begin() + 2);
            for (const Tensor& each : in) CHECK(each.grad().dtype() == each.dtype());
          }
}

}  // namespace
}  // namespace tutti
