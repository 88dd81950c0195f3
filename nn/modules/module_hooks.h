// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/autodiff/tensor/hooks.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

class Module;

/// Runs before forward: returns the inputs in place of those given, as many; empty: leaves them.
using ForwardPreHook = std::function<std::vector<Tensor>(const Module&, std::span<const Tensor> inputs)>;
/// Runs after forward: returns what takes the output's place; undefined: nothing does.
using ForwardHook = std::function<Tensor(const Module&, std::span<const Tensor> inputs, const Tensor& output)>;
/// The gradient of the output, before the module's own backward. As GradientHook.
using BackwardPreHook = std::function<Tensor(const Module&, const Tensor& output_gradient)>;
/// The gradient of one input, when the module's own backward has made it. As GradientHook.
using BackwardHook = std::function<Tensor(const Module&, std::size_t input, const Tensor& input_gradient)>;

/// Hooks of one module object. They stay with it: a copy has none, since it may run on another thread.
class ModuleHooks {
 public:
  struct Lists;

  ModuleHooks() = default;
  ModuleHooks(const ModuleHooks& other) noexcept : refusal_(other.refusal_) {}
  ModuleHooks& operator=(const ModuleHooks& other) noexcept {
    refusal_ = other.refusal_;
    if (refusal_ != nullptr) lists_ = nullptr;
    return *this;
  }
  ModuleHooks(ModuleHooks&&) noexcept = default;
  ModuleHooks& operator=(ModuleHooks&&) noexcept = default;
  ~ModuleHooks() = default;

  bool any() const noexcept { return lists_ != nullptr; }
  Lists& lists();  ///< made when first asked for; Error if they are refused
  void refuse(const char* reason) noexcept { refusal_ = reason; }
  const std::shared_ptr<Lists>& held() const noexcept { return lists_; }

 private:
  std::shared_ptr<Lists> lists_;
  const char* refusal_ = nullptr;
};

struct ModuleHooks::Lists {
  std::shared_ptr<HookList<ForwardPreHook>> before = std::make_shared<HookList<ForwardPreHook>>();
  std::shared_ptr<HookList<ForwardHook>> after = std::make_shared<HookList<ForwardHook>>();
  std::shared_ptr<HookList<BackwardPreHook>> output_gradient = std::make_shared<HookList<BackwardPreHook>>();
  std::shared_ptr<HookList<BackwardHook>> input_gradient = std::make_shared<HookList<BackwardHook>>();
};

}  // namespace tutti
