// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>
#include <tutti/nn/module.h>

#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tutti {

/// While one lives on a thread, errors raised there name the module by its place in the outermost that is being called:
/// "(in TransformerBlock.linear1: Linear)". `call` makes one; so do the forwards of layers that are made of layers, and
/// a model of one's own may: `const ModuleCall here(*this);`. Costs a nanosecond.
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

  inline static constinit thread_local const ModuleCall* innermost_ = nullptr;
  const Module& module_;
  const ModuleCall* outer_;
};

/// forward, between a module's hooks.
Tensor call_hooked(const Module&, std::vector<Tensor> inputs,
                   const std::function<Tensor(std::span<const Tensor>)>& forward);

/// What hooks see of a result, and may replace. Overloads for results that are no tensor stand beside these.
inline Tensor& hooked_output(Tensor& output) { return output; }

/// module.forward(x, ...), with the module's hooks around it, and errors that name the module. Layers of the library
/// call their parts so; a model of one's own does where hooks are to be heard of:
///
///   Tensor forward(const Tensor& x) const { return call(output, relu(call(hidden, x))); }
///
/// Hooks see the arguments that are tensors; others, such as AttentionMask and RecurrentState, are passed on. Of a
/// result that is no tensor they see `hooked_output`: an LSTM's sequence, a cell's hidden state.
template <std::derived_from<Module> M, class... More> auto call(M& module, const Tensor& x, const More&... more) {
  const ModuleCall here(module);
  using Result = decltype(module.forward(x, more...));
  if (!module.has_hooks()) return module.forward(x, more...);
  std::vector<Tensor> inputs{x};
  [[maybe_unused]] const auto add = [&]<class T>(const T& argument) {
    if constexpr (std::same_as<T, Tensor>) inputs.push_back(argument);
  };
  (add(more), ...);
  Result result;
  Tensor output = call_hooked(module, std::move(inputs), [&](std::span<const Tensor> seen) -> Tensor {
    auto next = seen.begin();
    const auto pick = [&]<class T>(const T& argument) -> const T& {
      if constexpr (std::same_as<T, Tensor>)
        return *next++;
      else
        return argument;
    };
    const std::tuple<const Tensor&, const More&...> arguments{pick(x), pick(more)...};  // braces: from left to right
    result = std::apply([&](const auto&... all) { return module.forward(all...); }, arguments);
    return hooked_output(result);
  });
  hooked_output(result) = std::move(output);
  return result;
}

}  // namespace tutti
