// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/steps/parameter_groups.h>

namespace tutti {

ParametersByRank split_by_rank(const std::vector<Tensor>& parameters) {
  ParametersByRank split;
  for (const Tensor& parameter : parameters)
    (parameter.rank() >= 2 ? split.matrices : split.vectors).push_back(parameter);
  return split;
}

}  // namespace tutti
