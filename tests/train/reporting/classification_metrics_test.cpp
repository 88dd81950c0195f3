// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/train/reporting/metric_operands.h>
#include <tutti/train/reporting/classification_metrics.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>

using namespace tutti;
using namespace tutti::testing;

namespace {

const std::vector<float> kLogits = {3, 1, 2, 0,   // in order: 0 2 1 3
                                    0, 0, 0, 0,   // 0 1 2 3
                                    1, 4, 3, 2};  // 1 2 3 0

Tensor logits() { return table(kLogits, 4); }

}  // namespace

TEST_CASE("Accuracy: the target among the k largest, the first of equals") {
  const auto accuracy = [](std::int64_t k, const std::vector<std::int64_t>& targets) {
    Accuracy metric(k);
    metric.add(logits(), numbers(targets));
    return metric.value();
  };
  CHECK(accuracy(1, {0, 0, 1}) == 1.0);
  CHECK(accuracy(1, {2, 1, 2}) == 0.0);
  CHECK(accuracy(2, {2, 1, 2}) == 1.0);
  CHECK(accuracy(2, {1, 2, 2}) == 1.0 / 3.0);
  CHECK(accuracy(4, {3, 3, 0}) == 1.0);
  CHECK_THROWS_AS(accuracy(5, {0, 0, 0}), ShapeError);
  CHECK_THROWS_AS(accuracy(1, {0, 0}), ShapeError);
  CHECK_THROWS_AS(Accuracy(0), Error);
  CHECK_THROWS_AS(Accuracy().add(logits(), row<float>({0, 0, 1})), DTypeError);
}

TEST_CASE("Accuracy: rows are weighted, merge and are found again") {
  Accuracy whole;
  CHECK(std::isnan(whole.value()));
  whole.add(logits(), numbers({0, 3, -100}), row<float>({0.5F, 1.5F, 0.0F}));
  CHECK(whole.value() == 0.25);
  Accuracy other;
  other.add(logits(), numbers({0, 0, 1}));
  whole.merge(other);
  CHECK(whole.value() == 3.5 / 5.0);
  Accuracy found;
  found.load_text(whole.to_text());
  CHECK(found.value() == whole.value());
  found.reset();
  CHECK(std::isnan(found.value()));
  CHECK_THROWS_AS(found.load_text("1 2 x"), DataError);
  CHECK_THROWS_AS(found.add(logits(), numbers({0, 0, 0}), row<float>({1, -1, 1})), Error);
  CHECK_THROWS_AS(found.add(logits(), numbers({0, 0, 0}), row<float>({1, 1})), ShapeError);
  found.add(table({}, 4), numbers({}));
  CHECK(std::isnan(found.value()));
}

TEST_CASE("Perplexity: of equal logits it is the number of classes") {
  Perplexity metric;
  CHECK(std::isnan(metric.value()));
  metric.add(table(std::vector<float>(8, 0.5F), 4), numbers({3, 0}));
  CHECK(metric.value() == doctest::Approx(4.0));
  const std::vector<float> certain = {0, std::log(3.0F), 0, 50};  // 1/4 and 3/4; sure
  Perplexity other;
  other.add(table(certain, 2), numbers({0, -1}), row<float>({2, 0}));
  CHECK(other.value() == doctest::Approx(4.0));
  other.add(std::log(16.0), 2.0);
  CHECK(other.value() == doctest::Approx(8.0));
  metric.merge(other);
  CHECK(metric.value() == doctest::Approx(std::exp2(16.0 / 6.0)));  // 2 and 2 rows of 2 bits, 2 of 4
  Perplexity found;
  found.load_text(metric.to_text());
  CHECK(found.value() == metric.value());
  CHECK_THROWS_AS(metric.add(logits(), numbers({0, 1})), ShapeError);
}

TEST_CASE("ConfusionMatrix: counts, and what is computed from them") {
  ConfusionMatrix matrix(3);
  CHECK(std::isnan(matrix.accuracy()));
  matrix.add(numbers({0, 1, 1, 0, 1}), numbers({0, 0, 1, 0, 1}));
  CHECK(matrix.count(0, 0) == 2.0);
  CHECK(matrix.count(0, 1) == 1.0);
  CHECK(matrix.count(1, 0) == 0.0);
  CHECK(matrix.accuracy() == 0.8);
  CHECK(matrix.precision(1) == 2.0 / 3.0);
  CHECK(matrix.recall(0) == 2.0 / 3.0);
  CHECK(matrix.f1(0) == 0.8);
  CHECK(std::isnan(matrix.precision(2)));
  CHECK(std::isnan(matrix.recall(2)));
  CHECK_THROWS_AS(matrix.count(3, 0), ShapeError);
}

TEST_CASE("ConfusionMatrix: takes logits and weights, merges and is found again") {
  ConfusionMatrix matrix(4);
  matrix.add(logits(), numbers({0, 3, 77}), row<double>({0.5, 2.0, 0.0}));
  CHECK(matrix.count(0, 0) == 0.5);
  CHECK(matrix.count(3, 0) == 2.0);
  ConfusionMatrix found(4);
  found.load_text(matrix.to_text());
  found.merge(found);
  CHECK(found.count(3, 0) == 4.0);
  CHECK_THROWS_AS(ConfusionMatrix(3).load_text(matrix.to_text()), DataError);
  CHECK_THROWS_AS(found.merge(ConfusionMatrix(3)), ShapeError);
  CHECK_THROWS_WITH_AS(matrix.add(logits(), numbers({0, 1, 4})),
                       doctest::Contains("row 2: class 4 taken for 1, of 4 classes"), DataError);
  CHECK(matrix.count(0, 0) == 0.5);  // nothing of that was added
  CHECK_THROWS_AS(ConfusionMatrix(2).add(logits(), numbers({0, 1, 1})), ShapeError);
}

TEST_CASE("Accuracy: rows with a NaN are misses") {
  const Tensor broken = table({NAN, 0, NAN, NAN, 0, NAN, 3, 1}, 2);
  for (const std::int64_t k : {1, 2}) {
    Accuracy metric(k);
    metric.add(broken, numbers({0, 0, 1, 0}));
    CHECK(metric.value() == 0.25);
  }
}

TEST_CASE("ConfusionMatrix: logits with NaN and numbers between classes are errors, and nothing is added") {
  ConfusionMatrix matrix(4);
  const Tensor broken = where(logits() == max(logits(), {1}, true), std::numeric_limits<float>::quiet_NaN(), logits());
  CHECK_THROWS_WITH_AS(matrix.add(broken, numbers({0, 1, 2})),
                       "[ConfusionMatrix] row 0: its logits have NaN, which is of no class", DataError);
  CHECK_THROWS_AS(matrix.add(numbers({0, 1, 2}) + 0.5, numbers({0, 1, 2})), DataError);
  for (int target = 0; target < 4; ++target)
    for (int prediction = 0; prediction < 4; ++prediction) CHECK(matrix.count(target, prediction) == 0.0);
}

TEST_CASE("Accuracy: a target that is none of the classes is an error, and nothing is added") {
  for (const std::int64_t k : {1, 2}) {
    Accuracy metric(k);
    for (const std::int64_t target : {std::int64_t{4}, std::int64_t{-1}}) {
      const std::string why = fmt::format("[Accuracy] row 2: target {} is none of the 4 classes", target);
      CHECK_THROWS_WITH_AS(metric.add(logits(), numbers({0, 0, target})), why.c_str(), DataError);
    }
    CHECK(std::isnan(metric.value()));
  }
}

TEST_CASE("Accuracy: the state is of one k") {
  Accuracy top1(1);
  top1.add(logits(), numbers({0, 1, 1}));
  Accuracy top5(5);
  CHECK_THROWS_WITH_AS(top5.load_text(top1.to_text()), doctest::Contains("is not a state of the 5 largest"), DataError);
  CHECK(std::isnan(top5.value()));
  top5.load_text("1 2 1 3");  // from before k was in it
  CHECK(top5.value() == top1.value());
}
