// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/module.h>

#include <concepts>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace tutti {

/// forward, between a module's hooks.
Tensor call_hooked(const Module&, std::vector<Tensor> inputs,
                   const std::function<Tensor(std::span<const Tensor>)>& forward);

/// module.forward(x, ...), with the module's hooks around it. Sequential calls its layers so; a model of one's own does
/// where hooks are to be heard of:
///
///   Tensor forward(const Tensor& x) const { return call(output, relu(call(hidden, x))); }
template <std::derived_from<Module> M, std::same_as<Tensor>... More>
Tensor call(M& module, const Tensor& x, const More&... more) {
  if (!module.has_hooks()) return module.forward(x, more...);
  return call_hooked(module, {x, more...}, [&](std::span<const Tensor> inputs) -> Tensor {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return module.forward(inputs[I]...);
    }(std::make_index_sequence<1 + sizeof...(More)>());
  });
}

}  // namespace tutti
