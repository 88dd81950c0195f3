// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operation_scope.h>

#include <tutti/autodiff/node.h>
#include <tutti/autodiff/tensor_access.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tutti {

namespace {

constexpr std::size_t kMostTold = 8;

std::string describe(const Tensor& operand) {
  if (operand.is_weak_scalar()) return fmt::format("the literal {}", weak_value(operand).to<double>());
  const auto& node = gradient_node(operand);
  return fmt::format("{} {}{}", to_string(operand.dtype()), to_string(operand.shape()), node ? node->origin() : "");
}

// "[sum] what failed" -> "[mean] sum: what failed"
std::string renamed(std::string_view name, std::string_view message) {
  if (!message.starts_with('[')) return fmt::format("[{}] {}", name, message);
  const std::size_t end = message.find("] ");
  if (end == std::string_view::npos || message.substr(1, end - 1) == name) return std::string(message);
  return fmt::format("[{}] {}: {}", name, message.substr(1, end - 1), message.substr(end + 2));
}

}  // namespace

std::string OperationScope::complete(std::string message) const {
  std::vector<std::string> told;
  const auto tell = [&](const Tensor& operand) {
    if (operand.defined()) told.push_back(told.size() < kMostTold ? describe(operand) : "...");
  };
  for (std::size_t i = 0; i < count_; ++i) tell(*operands_[i]);
  for (const Tensor& operand : list_.first(std::min(list_.size(), kMostTold + 1))) tell(operand);
  message = renamed(name_, message);
  return told.empty() ? message : fmt::format("{}; operands: {}", message, fmt::join(told, ", "));
}

}  // namespace tutti
