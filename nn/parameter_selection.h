// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parameters by name, for freezing and for groups of an optimizer. In a pattern, * stands for any characters, dots too,
// and ? for one: "encoder.*", "*.bias", "layers.?.weight". A tensor that several modules share has its first name only.

#include <tutti/nn/module.h>

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace tutti {

bool name_matches(std::string_view name, std::string_view pattern) noexcept;  ///< the whole name

/// Parameters whose names match, in order of declaration. Error, which lists the module's parameters, if there are
/// none: a misspelt name.
NamedTensors parameters_matching(Module&, std::string_view pattern);

/// Freezes (false) or unfreezes parameters: set_requires_grad(model, "encoder.*", false). A frozen one loses its
/// gradient and its mark for sparse ones. Errors are those of parameters_matching, and of Tensor::set_requires_grad for
/// parameters that are attached to a group; nothing is changed by the former.
void set_requires_grad(Module&, std::string_view pattern, bool);

/// The parameters that match each pattern, none twice: the first that fits takes it. Last come all others, which may be
/// none. Each part is what one group of an optimizer holds. Error for a pattern that gets nothing.
std::vector<std::vector<Tensor>> split_by_name(Module&, std::span<const std::string_view> patterns);
inline std::vector<std::vector<Tensor>> split_by_name(Module& module,
                                                      std::initializer_list<std::string_view> patterns) {
  return split_by_name(module, std::span(patterns.begin(), patterns.size()));
}

}  // namespace tutti
