// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>
#include <tutti/nn/module.h>

#include <concepts>
#include <functional>
#include <span>
#include <string>
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

/// module.forward(x, ...), with the module's hooks around it, and errors that name the module. Sequential calls its
/// layers so; a model of one's own does where these are to be heard of:
///
///   Tensor forward(const Tensor& x) const { return call(output, relu(call(hidden, x))); }
template <std::derived_from<Module> M, std::same_as<Tensor>... More>
Tensor call(M& module, const Tensor& x, const More&... more) {
  const ModuleCall here(module);
  if (!module.has_hooks()) return module.forward(x, more...);
  return call_hooked(module, {x, more...}, [&](std::span<const Tensor> inputs) -> Tensor {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return module.forward(inputs[I]...);
    }(std::make_index_sequence<1 + sizeof...(More)>());
  });
}

}  // namespace tutti
