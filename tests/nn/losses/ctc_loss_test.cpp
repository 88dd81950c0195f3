// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/gradcheck.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/nn/losses/ctc_loss.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <vector>

using namespace tutti;

namespace {

/// By summing over every path: one class for each step.
double by_enumeration(const std::vector<double>& log_probabilities, std::size_t time, std::size_t classes,
                      const std::vector<std::int64_t>& target, std::int64_t blank) {
  double total = 0;
  std::vector<std::size_t> path(time, 0);
  for (bool more = true; more;) {
    std::vector<std::int64_t> labels;
    double log_probability = 0;
    for (std::size_t t = 0; t < time; ++t) {
      const auto label = static_cast<std::int64_t>(path[t]);
      log_probability += log_probabilities[t * classes + path[t]];
      if (label != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(label);
    }
    if (labels == target) total += std::exp(log_probability);
    more = false;
    for (std::size_t t = 0; t < time && !more; ++t) {
      more = ++path[t] < classes;
      if (!more) path[t] = 0;
    }
  }
  return -std::log(total);
}

Tensor some_logits() { return spread({5, 1, 3}, 3); }

double loss_of(const Tensor& log_probabilities, const std::vector<std::int64_t>& target, std::int64_t length,
               const CtcOptions& options = {}) {
  const auto labels = static_cast<std::int64_t>(target.size());
  return ctc_loss(log_probabilities, index(target, {1, labels}), {{length}, {labels}}, options).item<double>();
}

}  // namespace

TEST_CASE("ctc_loss: the probability of all paths, one by one") {
  const Tensor log_probabilities = log_softmax(some_logits(), -1);
  const auto values = log_probabilities.to_vector<double>();
  const CtcOptions sum{.reduction = LossReduction::sum};
  const CtcOptions last_blank{.reduction = LossReduction::sum, .blank = 2};
  for (const std::vector<std::int64_t>& target :
       {std::vector<std::int64_t>{}, {1}, {1, 2}, {2, 2}, {1, 1, 2}, {1, 2, 1, 2}, {1, 1, 1}})
    for (const std::size_t time : {std::size_t{3}, std::size_t{5}}) {
      CAPTURE(target.size());
      CAPTURE(time);
      const double expected = by_enumeration(values, time, 3, target, 0);
      const double found = loss_of(log_probabilities, target, static_cast<std::int64_t>(time), sum);
      CHECK((found == expected || found == doctest::Approx(expected)));  // both may be infinite
    }
  CHECK(loss_of(log_probabilities, {0, 1, 0}, 5, last_blank) ==
        doctest::Approx(by_enumeration(values, 5, 3, {0, 1, 0}, 2)));
}

TEST_CASE("ctc_loss: first and second derivatives, also without a log_softmax") {
  const Tensor targets = index({1, 1, 2, 0}, {2, 2});
  const CtcLengths lengths{{4, 3}, {2, 1}};
  check_gradients([&](const std::vector<Tensor>& in) { return ctc_loss(in[0], targets, lengths); },
                  {spread({4, 2, 3}, 1)});
  const CtcOptions sum{.reduction = LossReduction::sum};
  check_gradients(
      [&](const std::vector<Tensor>& in) { return ctc_loss(log_softmax(in[0], -1), targets, lengths, sum); },
      {spread({4, 2, 3}, 1)});
}

TEST_CASE("ctc_loss: too few steps are infinitely improbable, with a gradient of 0") {
  for (const bool zero : {false, true}) {
    const Tensor logits = spread({2, 1, 3}, 1);
    const Tensor loss = ctc_loss(log_softmax(logits, -1), index({1, 1}, {1, 2}), {{2}, {2}}, {.zero_infinity = zero});
    CHECK(loss.item<double>() == (zero ? 0.0 : std::numeric_limits<double>::infinity()));
    const Tensor gradient = grad(loss, std::vector{logits})[0];
    CHECK(max(abs(gradient)).item<double>() == 0);
  }
}

TEST_CASE("ctc_loss: classes of no probability are not met, NaN stays, and what lies behind the lengths is not read") {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const double half = std::log(0.5);
  const Tensor sure = constant({half, half, kNone, half, half, kNone}, {2, 1, 3});
  CHECK(loss_of(sure, {1}, 2) == doctest::Approx(-std::log(0.75)));
  CHECK(loss_of(sure, {2}, 2) == std::numeric_limits<double>::infinity());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor odd = constant({half, half, kNone, half, nan, kNone}, {2, 1, 3});
  CHECK(std::isnan(loss_of(odd, {1}, 2)));
  CHECK(loss_of(odd, {1}, 1) == doctest::Approx(-half));
  const Tensor padded = ctc_loss(sure, index({1, -77}, {1, 2}), {{2}, {1}});
  CHECK(padded.item<double>() == doctest::Approx(-std::log(0.75)));
}

TEST_CASE("ctc_loss: backward costs no more than time log time, as no value is cut into all steps at once") {
  const Tensor x = spread({64, 1, 3}, 1);
  const Tensor loss = ctc_loss(log_softmax(x, -1), index({1, 2}, {1, 2}), {{64}, {2}});
  std::map<const Node*, std::size_t> readers;
  std::vector<const Node*> pending{loss.node().get()};
  while (!pending.empty()) {
    const Node* const node = pending.back();
    pending.pop_back();
    for (std::size_t i = 0; i < node->input_count(); ++i) {
      const Node* const input = node->input(i).get();
      if (input != nullptr && ++readers[input] == 1) pending.push_back(input);
    }
  }
  std::size_t most = 0;
  for (const auto& [node, count] : readers) most = std::max(most, count);
  CHECK(readers.size() > 3 * 64);
  CHECK(most < 10);
}

TEST_CASE("ctc_loss: half precision is computed in f32; nothing at all has a sum and no mean") {
  const Tensor wide = log_softmax(cast(some_logits(), DType::f32), -1);
  const Tensor narrow = cast(wide, DType::bf16);
  const CtcLengths lengths{{5}, {2}};
  const Tensor found = ctc_loss(narrow, index({1, 2}, {1, 2}), lengths);
  CHECK(found.dtype() == DType::bf16);
  CHECK(found.item<double>() ==
        cast(ctc_loss(cast(narrow, DType::f32), index({1, 2}, {1, 2}), lengths), DType::bf16).item<double>());
  const Tensor none = constant({}, {4, 0, 3});
  CHECK(ctc_loss(none, index({}, {0, 2}), {}, {.reduction = LossReduction::sum}).item<double>() == 0);
  CHECK_THROWS_WITH_AS(ctc_loss(none, index({}, {0, 2}), {}), doctest::Contains("[ctc_loss] the mean of no examples"),
                       ShapeError);
}

TEST_CASE("ctc_loss: what does not fit is refused by name") {
  const Tensor x = log_softmax(spread({4, 2, 3}, 1), -1);
  const Tensor targets = index({1, 2, 2, 1}, {2, 2});
  const CtcLengths lengths{{4, 4}, {2, 2}};
  const auto check = [](const char* text, auto&&... arguments) {
    CHECK_THROWS_WITH_AS(ctc_loss(arguments...), doctest::Contains(text), Error);
  };
  check("[ctc_loss] log probabilities [time, batch, classes] are needed, not [4, 6]", reshape(x, {4, 6}), targets,
        lengths);
  check("[ctc_loss] log probabilities are i64, not floating", cast(x, DType::i64), targets, lengths);
  check("[ctc_loss] targets must be class numbers, integers, got f64", x, cast(targets, DType::f64), lengths);
  check("need targets [2, labels], got [4]", x, reshape(targets, {4}), lengths);
  check("[ctc_loss] 1 lengths of inputs for a batch of 2", x, targets, CtcLengths{{4}, {2, 2}});
  check("[ctc_loss] a length of 5 of inputs of at most 4", x, targets, CtcLengths{{4, 5}, {2, 2}});
  check("[ctc_loss] a length of -1 of targets of at most 2", x, targets, CtcLengths{{4, 4}, {-1, 2}});
  check("[ctc_loss] the blank 3 is none of 3 classes", x, targets, lengths, CtcOptions{.blank = 3});
  CHECK_THROWS_WITH_AS(ctc_loss(x, index({1, 2, 7, 1}, {2, 2}), lengths).item<double>(),
                       doctest::Contains(index_error("[ctc_loss] target 7 is out of range for 3 classes")), ShapeError);
  CHECK(ctc_loss(x, cast(targets, DType::u8), lengths).item<double>() == ctc_loss(x, targets, lengths).item<double>());
}
