// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/export/free_lengths.h>

#include <algorithm>
#include <utility>

namespace tutti::onnx {

std::vector<FreeLength> candidates(const std::string& name, std::int64_t example) {
  std::vector<FreeLength> all{{name, example, 2 * example + 3, example + 1}};
  if (example > 5) all.push_back({name, example - 1, example / 2, example - 2});
  all.push_back({name, example, 2 * example, 3 * example});
  return all;
}

FreeLengths::FreeLengths(std::vector<FreeLength> lengths) : lengths_(std::move(lengths)) {
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> last;
  for (const FreeLength& length : lengths_) {
    first.push_back(length.first);
    last.push_back(length.last);
  }
  runs_.push_back(first);
  if (lengths_.empty()) return;
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    runs_.push_back(first);
    runs_.back()[i] = lengths_[i].far;
  }
  runs_.push_back(last);
}

std::string FreeLengths::describe(const std::vector<std::int64_t>& run) const {
  if (lengths_.empty()) return "the example's lengths";
  std::string text;
  for (std::size_t i = 0; i < lengths_.size(); ++i)
    text += (i == 0 ? "\"" : ", \"") + lengths_[i].name + "\" = " + std::to_string(run[i]);
  return text;
}

std::optional<LengthFormula> FreeLengths::formula(std::span<const std::int64_t> values) const {
  const std::vector<std::int64_t>& first = runs_.front();
  LengthFormula formula{values[0], 0, {}};
  for (std::size_t i = 0; i < lengths_.size(); ++i)
    if (values[i + 1] != values[0]) formula.lengths.push_back(i);
  constexpr std::int64_t kMost = std::int64_t{1} << 40U;  // products of more would overflow, as of the end of a slice
  if (!formula.is_constant()) {
    if (std::ranges::any_of(values, [](std::int64_t value) { return value > kMost || value < -kMost; }))
      return std::nullopt;
    std::int64_t product = 1;
    bool proportional = true;
    for (const std::size_t i : formula.lengths) {
      product *= first[i];
      proportional = proportional && values[i + 1] * first[i] == values[0] * runs_[i + 1][i];
    }
    if (proportional && values[0] % product == 0) {
      formula.offset = 0;
      formula.factor = values[0] / product;
    } else {
      const std::size_t only = formula.lengths.front();
      const std::int64_t apart = runs_[only + 1][only] - first[only];
      const std::int64_t difference = values[only + 1] - values[0];
      if (formula.lengths.size() > 1 || difference % apart != 0) return std::nullopt;
      formula.factor = difference / apart;
      formula.offset = values[0] - formula.factor * first[only];
    }
  }
  std::int64_t predicted = formula.is_constant() ? 0 : formula.factor;
  for (const std::size_t i : formula.lengths) predicted *= runs_.back()[i];
  return predicted + formula.offset == values.back() ? std::optional(formula) : std::nullopt;
}

}  // namespace tutti::onnx
