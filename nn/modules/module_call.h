// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>
#include <tutti/nn/module.h>

#include <concepts>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tutti {

/// Names a module in the errors raised on the thread while the object lives, by its place in the outermost module that
/// is being called: "(in TransformerBlock.linear1: Linear)". Calls of layers (nn/layer.h) make one. Costs a nanosecond.
class [[nodiscard]] ModuleCall {
 public:
  explicit ModuleCall(const Module& module) noexcept : module_(module), outer_(std::exchange(innermost_, this)) {
    detail::module_of_thread.store(&describe, std::memory_order_relaxed);
  }
  ~ModuleCall() { innermost_ = outer_; }
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;

 private:
  static std::string describe();

  static constinit thread_local const ModuleCall* innermost_;
  const Module& module_;
  const ModuleCall* outer_;
};

/// forward, between a module's hooks.
Tensor call_hooked(const Module&, std::vector<Tensor> inputs,
                   const std::function<Tensor(std::span<const Tensor>)>& forward);

/// Tensor of a result that hooks see and may replace. Overloads for results that are no tensor stand beside these.
inline Tensor& hooked_output(Tensor& output) { return output; }
template <class... More> Tensor& hooked_output(std::pair<Tensor, More...>& output) { return output.first; }
template <class... More> Tensor& hooked_output(std::tuple<Tensor, More...>& output) { return std::get<0>(output); }

/// compute(inputs...) as a call of the module: between its hooks, and named by errors. Hooks see the inputs that are
/// tensors; others, such as AttentionMask and RecurrentState, are passed on. Of a result that is no tensor they see
/// `hooked_output`: an LSTM's sequence, a cell's hidden state.
template <class Compute, class... Inputs>
auto call_through(const Module& module, const Compute& compute, Inputs&... inputs) {
  using Result = decltype(compute(inputs...));
  static_assert(
      requires(Result& result) { hooked_output(result); },
      "hooks see a tensor of the result: declare Tensor& hooked_output(Result&) beside its type");
  const ModuleCall here(module);
  if (!module.has_hooks()) return compute(inputs...);
  std::vector<Tensor> tensors;
  [[maybe_unused]] const auto add = [&]<class T>(T& input) {
    if constexpr (std::same_as<std::remove_const_t<T>, Tensor>) tensors.push_back(input);
  };
  (add(inputs), ...);
  std::optional<Result> result;
  Tensor output = call_hooked(module, std::move(tensors), [&](std::span<const Tensor> seen) -> Tensor {
    [[maybe_unused]] auto next = seen.begin();
    const auto pick = [&]<class T>(T& input) -> auto& {
      if constexpr (std::same_as<std::remove_const_t<T>, Tensor>)
        return *next++;
      else
        return input;
    };
    const std::tuple<decltype(pick(inputs))...> picked{pick(inputs)...};  // braces: from left to right
    result.emplace(std::apply(compute, picked));
    return hooked_output(*result);
  });
  hooked_output(*result) = std::move(output);
  return std::move(*result);
}

/// module.forward(x, ...) of any module; one that is no layer is named by errors then, too.
template <std::derived_from<Module> M, class... More> auto call(M& module, const Tensor& x, More&&... more) {
  const ModuleCall here(module);
  return module.forward(x, std::forward<More>(more)...);
}

}  // namespace tutti
