// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/backend.h>
#include <tutti/backend/calls/parameter_macros.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace tutti::kernel {

// Types of the list's parameters, by which it is known what a kernel does to its arrays.
struct In;     ///< an array that is read
struct Out;    ///< an array that is written
struct InOut;  ///< an array that is changed: what it held counts
struct Outs;   ///< arrays that are written

template <class Parameter> inline constexpr bool writes =
    std::is_same_v<Parameter, Out> || std::is_same_v<Parameter, InOut> || std::is_same_v<Parameter, Outs>;

/// The types of a kernel's parameters.
template <class... Parameters> struct ParameterList {
  /// Calls `f.template operator()<Parameter>(argument)` for each, in order.
  template <class F, class... Arguments> static void for_each(const F& f, const Arguments&... arguments) {
    (f.template operator()<Parameters>(arguments), ...);
  }
};

// One type for each kernel, by which a template or an overload tells them apart: `kernel::cumsum` and its like.
//   name                       what it is called
//   Parameters                 its ParameterList
//   has_default                whether a backend may lack it
//   run(backend, arguments...)          calls it
//   run_default(backend, arguments...)  calls the default of one that has_default, whatever the backend has
#define TUTTI_KERNEL(kernel_name, ...)                                                           \
  struct kernel_name {                                                                           \
    static constexpr std::string_view name = #kernel_name;                                       \
    static constexpr bool has_default = false;                                                   \
    using Parameters = ParameterList<TUTTI_PARAMETER_TYPES(__VA_ARGS__)>;                        \
    template <class... Arguments> static void run(Backend& backend, const Arguments&... given) { \
      backend.kernel_name(given...);                                                             \
    }                                                                                            \
  };
#define TUTTI_KERNEL_WITH_DEFAULT(kernel_name, ...)                                                      \
  struct kernel_name {                                                                                   \
    static constexpr std::string_view name = #kernel_name;                                               \
    static constexpr bool has_default = true;                                                            \
    using Parameters = ParameterList<TUTTI_PARAMETER_TYPES(__VA_ARGS__)>;                                \
    template <class... Arguments> static void run(Backend& backend, const Arguments&... given) {         \
      backend.kernel_name(given...);                                                                     \
    }                                                                                                    \
    template <class... Arguments> static void run_default(Backend& backend, const Arguments&... given) { \
      backend.Backend::kernel_name(given...);                                                            \
    }                                                                                                    \
  };
#include <tutti/backend/kernel_list.h>

/// Calls `f(std::type_identity<Kernel>{})` for each kernel there is, in the list's order.
template <class F> void for_each(const F& f) {
#define TUTTI_KERNEL(kernel_name, ...) f(std::type_identity<kernel_name>{});
#include <tutti/backend/kernel_list.h>
}

/// Calls `f` for each array among the arguments that the kernel writes to.
template <class Kernel, class F, class... Arguments> void for_each_output(const F& f, const Arguments&... arguments) {
  Kernel::Parameters::for_each(
      [&]<class Parameter>(const auto& argument) {
        if constexpr (std::is_same_v<Parameter, Outs>)
          for (const Array& each : argument) f(each);
        else if constexpr (writes<Parameter>)
          f(argument);
      },
      arguments...);
}

}  // namespace tutti::kernel
