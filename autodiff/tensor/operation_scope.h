// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/error.h>

#include <array>
#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace tutti {

/// Makes errors that are raised on its thread while it lives name its operation and the operands: their dtypes and
/// shapes, the devices if they differ and, where a graph knows it, what made them. Of nested ones the outermost speaks,
/// so that an operation that is composed of others names itself; what they record is named after it too. Refers to the
/// operands, which are variables. The name is a literal: nodes keep it.
///
/// An operation pays a nanosecond or two.
class OperationScope final : detail::ErrorContext {
 public:
  template <class... Operands>
    requires(std::same_as<std::remove_const_t<Operands>, Tensor> && ...)
  explicit OperationScope(std::string_view name, Operands&... operands)
      : ErrorContext(name), count_(sizeof...(operands)), operands_{&operands...} {
    enter();
  }
  OperationScope(std::string_view name, std::span<const Tensor> operands) : ErrorContext(name), list_(operands) {
    enter();
  }
  ~OperationScope() { detail::error_context = outer_; }
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

 private:
  void enter() noexcept {
    outer_ = detail::error_context;
    if (outer_ == nullptr) detail::error_context = this;
  }
  std::string complete(std::string message) const override;
  std::string undefined_operand() const override;
  std::size_t count() const noexcept { return count_ + list_.size(); }
  const Tensor& operand(std::size_t i) const { return i < count_ ? *operands_[i] : list_[i - count_]; }

  static constexpr std::size_t kMost = 5;
  const detail::ErrorContext* outer_;
  std::size_t count_ = 0;
  std::array<const Tensor*, kMost> operands_;
  std::span<const Tensor> list_;
};

/// Throws AutodiffError, which names the operation and the first of its operands that is undefined; for errors raised
/// outside of any operation `fallback` names it.
[[noreturn]] void raise_undefined(std::string_view fallback);

}  // namespace tutti
