// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/tensor/operation_scope.h>

#include <tutti/autodiff/node.h>
#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/raise.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti {

namespace {

constexpr std::size_t kMostTold = 8;

std::string describe(const Tensor& operand, bool tell_device) {
  if (!operand.defined()) return "undefined";
  if (operand.is_weak_scalar()) return fmt::format("the literal {}", weak_value(operand).to<double>());
  const auto& node = gradient_node(operand);
  const std::string device = tell_device ? " on " + to_string(operand.device()) : "";
  return fmt::format("{} {}{}{}", to_string(operand.dtype()), to_string(operand.shape()), device,
                     node ? node->origin() : "");
}

// "[sum] what failed" -> "[mean] what failed": which step of an operation it was is nothing that its caller knows.
std::string renamed(std::string_view name, std::string_view message) {
  if (!message.starts_with('[')) return fmt::format("[{}] {}", name, message);
  const std::size_t end = message.find("] ");
  if (end == std::string_view::npos || message.substr(1, end - 1) == name) return std::string(message);
  return fmt::format("[{}] {}", name, message.substr(end + 2));
}

}  // namespace

std::string OperationScope::complete(std::string message) const {
  message = renamed(operation(), message);
  std::size_t last = count();  // optional operands that were left out say nothing
  while (last > 0 && !operand(last - 1).defined()) --last;
  std::optional<Device> device;
  bool differ = false;
  for (std::size_t i = 0; i < last; ++i) {
    const Tensor& other = operand(i);
    if (other.defined() && !other.is_weak_scalar()) differ |= device.value_or(other.device()) != other.device();
    if (other.defined() && !other.is_weak_scalar()) device = other.device();
  }
  std::vector<std::string> told;
  for (std::size_t i = 0; i < last && i < kMostTold; ++i) told.push_back(describe(operand(i), differ));
  if (last > kMostTold) told.emplace_back("...");
  return told.empty() ? message : fmt::format("{}; operands: {}", message, fmt::join(told, ", "));
}

std::string OperationScope::undefined_operand() const {
  if (count() == 1) return operand(0).defined() ? "a tensor" : "the operand";
  for (std::size_t i = 0; i < count(); ++i)
    if (!operand(i).defined()) return fmt::format("operand {}", i + 1);
  return "an operand";
}

void raise_undefined(std::string_view fallback) {
  if (const auto* context = detail::error_context)
    raise<AutodiffError>("[{}] {} is undefined", context->operation(), context->undefined_operand());
  raise<AutodiffError>("[{}] an undefined tensor has no value", fallback);
}

}  // namespace tutti
