// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/examples/click_log.h>
#include <tutti/nn/hash_embedding.h>
#include <tutti/nn/linear.h>

#include <cstdint>

namespace clicks {

/// Cheng et al., "Wide & Deep Learning for Recommender Systems" (2016): a linear model of all ids, crossed ones too,
/// which remembers, beside a network over embeddings, which generalises. The network also sees where a user's
/// embedding meets an item's.
class WideAndDeep : public tutti::Layer {
 public:
  WideAndDeep(std::int64_t features, tutti::Generator& random)
      : wide_(1, {.table = {.deviation = 0.0}}),
        deep_(features, {.table = {.seed = 1, .deviation = 0.1}}),
        hidden_(4 * features, 32, random),
        output_(32, 1, random) {}

  /// ids [n, kColumns] -> logits [n, 1]
  tutti::Tensor compute(const tutti::Tensor& ids) const override {
    const tutti::Tensor wide = sum(wide_(ids), {1});
    const tutti::Tensor embedded = deep_(ids.slice(1, Column::user, Column::slot + 1));
    const auto column = [&](std::int64_t i) { return embedded.slice(1, i, i + 1).reshape({ids.length(0), -1}); };
    const tutti::Tensor meets = column(Column::user) * column(Column::item);
    const tutti::Tensor all = tutti::concatenate({embedded.reshape({ids.length(0), -1}), meets}, 1);
    return wide + output_(relu(hidden_(all)));
  }

  void visit(tutti::MemberVisitor& v) override {
    v.module("wide", wide_);
    v.module("deep", deep_);
    v.module("hidden", hidden_);
    v.module("output", output_);
  }

 private:
  tutti::HashEmbedding wide_;
  tutti::HashEmbedding deep_;  // of users, items and slots: an id is in one of them only
  tutti::Linear hidden_;
  tutti::Linear output_;
};

}  // namespace clicks
