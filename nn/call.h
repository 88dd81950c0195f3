// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/module.h>

#include <concepts>
#include <functional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace tutti {

/// forward, between a module's hooks.
Tensor call_hooked(const Module&, std::vector<Tensor> inputs,
                   const std::function<Tensor(std::span<const Tensor>)>& forward);

/// What hooks see of a result, and may replace. Overloads for results that are no tensor stand beside these.
inline Tensor& hooked_output(Tensor& output) { return output; }

/// module.forward(x, ...), with the module's hooks around it. Layers of the library call their parts so; a model of
/// one's own does where hooks are to be heard of:
///
///   Tensor forward(const Tensor& x) const { return call(output, relu(call(hidden, x))); }
///
/// Hooks see the arguments that are tensors; others, such as AttentionMask and RecurrentState, are passed on. Of a
/// result that is no tensor they see `hooked_output`: an LSTM's sequence, a cell's hidden state.
template <std::derived_from<Module> M, class... More> auto call(M& module, const Tensor& x, const More&... more) {
  using Result = decltype(module.forward(x, more...));
  if (!module.has_hooks()) return module.forward(x, more...);
  std::vector<Tensor> inputs{x};
  const auto add = [&]<class T>(const T& argument) {
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
