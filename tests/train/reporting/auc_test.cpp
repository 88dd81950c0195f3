// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/tests/train/reporting/metric_operands.h>
#include <tutti/train/reporting/auc.h>

#include <cmath>
#include <random>

using namespace tutti;
using namespace tutti::testing;

namespace {

/// By the definition: over all pairs.
double by_pairs(const std::vector<float>& scores, const std::vector<std::int64_t>& targets,
                const std::vector<float>& weights) {
  double pairs = 0.0;
  double right = 0.0;
  for (std::size_t i = 0; i < scores.size(); ++i)
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (targets[i] != 1 || targets[j] != 0) continue;
      const double weight = double(weights[i]) * double(weights[j]);
      pairs += weight;
      right += weight * (scores[i] > scores[j] ? 1.0 : scores[i] == scores[j] ? 0.5 : 0.0);
    }
  return right / pairs;
}

}  // namespace

TEST_CASE("Auc: figures worked out by hand") {
  Auc auc;
  CHECK(std::isnan(auc.value()));
  auc.add(row<float>({0.1F, 0.4F, 0.35F, 0.8F}), numbers({0, 0, 1, 1}));
  CHECK(auc.value() == 0.75);
  auc.reset();
  auc.add(row<float>({2, 2, 2}), numbers({0, 1, 1}));
  CHECK(auc.value() == 0.5);  // ties count half
  auc.reset();
  auc.add(row<float>({-1, 0}), numbers({1, 1}));
  CHECK(std::isnan(auc.value()));
  auc.add(row<float>({-0.0F, INFINITY}), row<float>({0, 0}));
  CHECK(auc.value() == 0.125);  // half of one pair of four
  auc.add(row<float>({NAN}), numbers({0}));
  CHECK(std::isnan(auc.value()));
}

TEST_CASE("Auc: is the share of pairs in order, with ties and weights, however rows are divided") {
  std::mt19937 random(3);
  std::vector<float> scores;
  std::vector<std::int64_t> targets;
  std::vector<float> weights;
  for (int i = 0; i < 120; ++i) {
    scores.push_back(static_cast<float>(random() % 20));
    targets.push_back(static_cast<std::int64_t>(random() % 3 == 0));
    weights.push_back(static_cast<float>(random() % 5) / 3.0F);
  }
  Auc whole;
  whole.add(row(scores), row(targets), row(weights));
  CHECK(whole.value() == doctest::Approx(by_pairs(scores, targets, weights)).epsilon(1e-12));
  Auc parts[2];
  for (const std::size_t part : {1, 0}) {
    const auto half = [&](const auto& all) {
      return row(std::remove_cvref_t<decltype(all)>(all.begin() + 60 * static_cast<int>(part),
                                                    all.begin() + 60 * static_cast<int>(part + 1)));
    };
    parts[part].add(half(scores), half(targets), half(weights));
  }
  parts[1].merge(parts[0]);
  CHECK(parts[1].value() == whole.value());
  Auc found;
  found.load_text(whole.to_text());
  CHECK(found.value() == whole.value());
  found.merge(found);
  CHECK(found.value() == doctest::Approx(whole.value()));
}

TEST_CASE("Auc: refuses what is no binary classification") {
  Auc auc;
  const Tensor scores = row<float>({1, 2});
  CHECK_THROWS_WITH_AS(auc.add(scores, numbers({0, 2})), doctest::Contains("row 1: the target is 2"), DataError);
  CHECK_THROWS_AS(auc.add(scores, numbers({0})), ShapeError);
  CHECK_THROWS_AS(auc.add(table({1, 2}, 1), numbers({0, 1})), ShapeError);
  CHECK_THROWS_AS(auc.load_text("1 2 3"), DataError);
  CHECK(auc.to_text().empty());
  auc.add(scores, numbers({0, 7}), row<float>({1, 0}));
  auc.add(row<float>({}), numbers({}));
  CHECK(auc.to_text() == "1 -1");
}
