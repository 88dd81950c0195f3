// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <string>
#include <vector>

namespace tutti {

/// The area under the receiver operating characteristic of a binary classifier, exact over all rows added: the chance
/// that a positive row has a higher score than a negative one, where equal scores count half. It is the statistic of
/// Mann and Whitney divided by the number of pairs: Hanley and McNeil, "The meaning and use of the area under a
/// receiver operating characteristic (ROC) curve" (1982); scikit-learn's roc_auc_score. Weighted, a pair counts the
/// product of its weights. Keeps 16 bytes a row.
class Auc {
 public:
  /// Scores [n] in any scale that ascends (logits, probabilities), targets [n] of 0 or 1, weights [n] (undefined: 1).
  /// Reads from the device once, which it waits for. ShapeError for other shapes, DataError for other targets, Error
  /// for negative weights; nothing is added then.
  void add(const Tensor& scores, const Tensor& targets, const Tensor& weights = {});
  void merge(const Auc&);  ///< adds the other's rows, with the same bits in any order

  double value() const;  ///< NaN without both classes, and with a score that is NaN
  void reset() { rows_.clear(); }
  std::string to_text() const;
  void load_text(const std::string&);  ///< throws DataError; nothing is changed then

 private:
  struct Row {
    double score;
    double weight;  // negative: the row's target is 0
    auto operator<=>(const Row&) const = default;
  };
  std::vector<Row> rows_;
};

}  // namespace tutti
