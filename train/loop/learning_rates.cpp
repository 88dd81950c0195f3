// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/loop/learning_rates.h>

#include <tutti/optim/optimizer.h>

#include <fmt/format.h>

namespace tutti {

std::string text_of_rates(const Optimizer& optimizer) {
  std::string text;
  for (std::size_t group = 0; group < optimizer.group_count(); ++group)
    text += fmt::format("{}{:.9g}", group == 0 ? "" : ", ", optimizer.learning_rate(group));
  return text;
}

}  // namespace tutti
