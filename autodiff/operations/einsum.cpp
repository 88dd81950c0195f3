// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

namespace {

using Labels = std::vector<int>;  // letters; axes that "..." stands for count down from -1, from the back

bool contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

struct Operand {
  Tensor value;
  Labels labels;  // of its axes, no label twice
};

/// The two sides of "ij,jk->ik", spaces left out.
class Equation {
 public:
  Equation(std::string_view text, std::span<const Tensor> operands) : text_(text) {
    std::string plain;
    std::copy_if(text.begin(), text.end(), std::back_inserter(plain), [](char c) { return c != ' '; });
    const std::size_t arrow = plain.find("->");
    const std::string left = plain.substr(0, arrow);
    std::size_t begin = 0;
    for (const Tensor& operand : operands) {
      if (begin > left.size()) refuse("it has fewer terms than there are operands");
      const std::size_t comma = std::min(left.find(',', begin), left.size());
      inputs.push_back(parse(std::string_view(left).substr(begin, comma - begin), operand.rank()));
      begin = comma + 1;
    }
    if (begin != left.size() + 1) refuse("it has more terms than there are operands");
    if (arrow == std::string::npos)
      output = implied_output();
    else
      output = parse_output(std::string_view(plain).substr(arrow + 2));
  }

  std::vector<Labels> inputs;
  Labels output;

  [[noreturn]] void refuse(std::string_view why) const { raise<ShapeError>("[einsum] \"{}\": {}", text_, why); }

 private:
  // `rank`: of the operand, which says how many axes "..." stands for.
  Labels parse(std::string_view term, std::size_t rank) {
    const std::size_t dots = term.find("...");
    const std::size_t letters = term.size() - (dots == std::string_view::npos ? 0 : 3);
    if (dots == std::string_view::npos ? letters != rank : letters > rank)
      refuse(fmt::format("term \"{}\" does not fit an operand of rank {}", term, rank));
    Labels labels;
    for (std::size_t i = 0; i < term.size(); ++i) {
      if (i == dots) {
        const auto hidden = static_cast<int>(rank - letters);
        for (int axis = hidden; axis > 0; --axis) labels.push_back(-axis);
        hidden_ = std::max(hidden_, hidden);
        i += 2;
      } else {
        labels.push_back(letter(term[i]));
      }
    }
    return labels;
  }

  int letter(char c) const {
    if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z')) refuse(fmt::format("'{}' is no letter", c));
    return c;
  }

  Labels hidden() const {
    Labels labels;
    for (int axis = hidden_; axis > 0; --axis) labels.push_back(-axis);
    return labels;
  }

  Labels parse_output(std::string_view term) {
    const bool dots = term.find("...") != std::string_view::npos;
    const std::size_t letters = term.size() - (dots ? 3 : 0);
    Labels labels = parse(term, letters + (dots ? static_cast<std::size_t>(hidden_) : 0));
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const int label = labels[i];
      if (std::count(labels.begin(), labels.end(), label) > 1)
        refuse(fmt::format("'{}' stands twice in the result", static_cast<char>(label)));
      if (label > 0 &&
          !std::any_of(inputs.begin(), inputs.end(), [&](const Labels& in) { return contains(in, label); }))
        refuse(fmt::format("'{}' of the result is in no operand", static_cast<char>(label)));
    }
    return labels;
  }

  // What "..." stands for, then the letters that stand once, in the alphabet's order.
  Labels implied_output() const {
    std::map<int, int> counts;
    for (const Labels& labels : inputs)
      for (const int label : labels) ++counts[label];
    Labels labels = hidden();
    for (const auto& [label, count] : counts)
      if (label > 0 && count == 1) labels.push_back(label);
    return labels;
  }

  std::string_view text_;
  int hidden_ = 0;
};

// A letter that stands twice selects the diagonal.
Operand without_repeats(Operand operand) {
  for (std::size_t i = 0; i < operand.labels.size(); ++i) {
    const auto again =
        std::find(operand.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, operand.labels.end(), operand.labels[i]);
    if (again == operand.labels.end()) continue;
    const int label = operand.labels[i];
    const auto second = again - operand.labels.begin();
    operand.value = diagonal(operand.value, 0, static_cast<std::int64_t>(i), second);
    operand.labels.erase(again);
    operand.labels.erase(operand.labels.begin() + static_cast<std::ptrdiff_t>(i));
    operand.labels.push_back(label);
    --i;
  }
  return operand;
}

Operand sum_out(Operand operand, const Labels& kept) {
  std::vector<std::int64_t> axes;
  Labels labels;
  for (std::size_t i = 0; i < operand.labels.size(); ++i)
    if (contains(kept, operand.labels[i]))
      labels.push_back(operand.labels[i]);
    else
      axes.push_back(static_cast<std::int64_t>(i));
  if (axes.empty()) return operand;
  return {sum(operand.value, axes), labels};
}

/// The axes of `operand` in this order, and the number of elements that they run over.
Tensor in_order(const Operand& operand, const Labels& order) {
  std::vector<std::int64_t> axes;
  for (const int label : order)
    axes.push_back(std::find(operand.labels.begin(), operand.labels.end(), label) - operand.labels.begin());
  return permute(operand.value, axes);
}

Labels join(const Labels& a, const Labels& b) {
  Labels labels = a;
  labels.insert(labels.end(), b.begin(), b.end());
  return labels;
}

using Lengths = std::map<int, std::int64_t>;

std::int64_t count(const Lengths& lengths, const Labels& labels) {
  CheckedSize product = 1;
  for (const int label : labels) product = product * lengths.at(label);
  return product.get("einsum", "{} axes as one", labels.size());
}

// One batched product: labels of both that are kept, of the left, of the right; those of both that are not are summed.
Operand contract(const Operand& lhs, const Operand& rhs, const Labels& kept, const Lengths& lengths) {
  Labels batch;
  Labels summed;
  Labels left;
  Labels right;
  for (const int label : lhs.labels)
    (!contains(rhs.labels, label) ? left : contains(kept, label) ? batch : summed).push_back(label);
  for (const int label : rhs.labels)
    if (!contains(lhs.labels, label)) right.push_back(label);
  const std::int64_t batches = count(lengths, batch);
  const std::int64_t rows = count(lengths, left);
  const std::int64_t columns = count(lengths, right);
  const std::int64_t inner = count(lengths, summed);
  const Tensor a = reshape(in_order(lhs, join(join(batch, left), summed)), {batches, rows, inner});
  const Tensor b = reshape(in_order(rhs, join(join(batch, summed), right)), {batches, inner, columns});
  const Tensor product = summed.empty() ? a * b : matmul(a, b);
  const Labels labels = join(join(batch, left), right);
  Shape shape;
  for (const int label : labels) shape.push_back(lengths.at(label));
  return {reshape(product, shape), labels};
}

}  // namespace

Tensor einsum(std::string_view equation, std::span<const Tensor> given) {
  const OperationScope scope("einsum", given);
  std::vector<Tensor> operands;
  for (const Tensor& operand : given) operands.push_back(autocast("einsum", operand));
  if (operands.empty()) raise<ShapeError>("[einsum] there are no operands");
  for (const Tensor& operand : operands)
    if (operand.device() != operands.front().device())
      raise<DeviceError>("[einsum] operands are on different devices: {} and {}", to_string(operands.front().device()),
                         to_string(operand.device()));
  const Equation parsed(equation, operands);
  DType dtype = DType::boolean;
  for (const Tensor& operand : operands) dtype = promote(dtype, operand.dtype());
  if (!is_floating(dtype)) dtype = DType::f32;  // as matmul has it
  std::vector<Operand> rest;
  Lengths lengths;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (std::size_t axis = 0; axis < operands[i].rank(); ++axis) {
      const int label = parsed.inputs[i][axis];
      const std::int64_t length = operands[i].shape()[axis];
      const std::int64_t known = lengths.try_emplace(label, length).first->second;
      if (known == 1) lengths[label] = length;
      if (known != length && known != 1 && length != 1)
        parsed.refuse(label > 0 ? fmt::format("'{}' has lengths {} and {}", static_cast<char>(label), known, length)
                                : fmt::format("axes of \"...\" have lengths {} and {}", known, length));
    }
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Shape shape;
    for (const int label : parsed.inputs[i]) shape.push_back(lengths.at(label));
    rest.push_back(without_repeats({broadcast_to(cast(operands[i], dtype), shape), parsed.inputs[i]}));
  }
  for (std::size_t i = 0; i < rest.size(); ++i) {
    Labels others = parsed.output;  // what is needed later
    for (std::size_t j = i + 1; j < rest.size(); ++j) others = join(others, rest[j].labels);
    if (i == 0) {
      rest[0] = sum_out(rest[0], others);
      continue;
    }
    Labels here = join(others, rest[i - 1].labels);
    rest[i] = sum_out(rest[i], here);
    rest[i] = sum_out(contract(rest[i - 1], rest[i], others, lengths), others);
  }
  return in_order(sum_out(rest.back(), parsed.output), parsed.output);
}

}  // namespace tutti
