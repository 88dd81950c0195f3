// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/optimizer.h>

#include <string>
#include <vector>

namespace tutti {

/// Parameters that share a learning rate and an optimizer's options.
template <class Options> struct ParameterGroup {
  std::vector<Tensor> parameters;
  double learning_rate = 0.0;
  Options options = {};
};

/// Matrices and more, which weight decay and Muon are for, and vectors and scalars: biases and the weights of norms.
struct ParametersByRank {
  std::vector<Tensor> matrices;  ///< parameters of rank 2 and above
  std::vector<Tensor> vectors;   ///< parameters of rank 0 and 1
};
ParametersByRank split_by_rank(const std::vector<Tensor>&);  ///< each list in the order given

/// An optimizer whose groups have `Options` each, which a function options_text(const Options&) tells.
template <class Options> class GroupedOptimizer : public Optimizer {
 public:
  using ParameterGroups = std::vector<ParameterGroup<Options>>;

  /// Throws Error if there is no such group.
  const Options& options(std::size_t group = 0) const {
    learning_rate(group);
    return options_[group];
  }
  std::string options_of_groups() const override {
    std::string text;
    if constexpr (requires(const Options& each) { options_text(each); })
      for (const Options& each : options_) text += (text.empty() ? "" : "; ") + options_text(each);
    return text;
  }

 protected:
  /// `check` throws Error for options outside their range.
  template <class Check> GroupedOptimizer(const ParameterGroups& groups, const Check& check)
      : Optimizer(without_options(groups)) {
    for (const auto& group : groups) {
      check(group.options);
      options_.push_back(group.options);
    }
  }

  const Options& options_of(const Update& update) const { return options(group_of(update.position)); }
  double rate_of(const Update& update) const { return learning_rate(group_of(update.position)); }

 private:
  static std::vector<Group> without_options(const ParameterGroups& groups) {
    std::vector<Group> plain;
    for (const auto& group : groups) plain.push_back({group.parameters, group.learning_rate});
    return plain;
  }

  std::vector<Options> options_;
};

}  // namespace tutti
