// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/exchange/safetensors.h>
#include <tutti/nn/module.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// All parameters, then all buffers of a module, by dotted name: what PyTorch calls a state_dict. Shares their storage.
NamedArrays module_state(Module&);
/// A module's state, as `module_state`, in arrays of its own, which training does not change: to come back to with
/// load_state.
NamedArrays copy_module_state(Module&);

struct StateLoading {
  /// The module's name for one of the file's, "" to leave that one out: name_with_prefix("model.", ""), or any
  /// function.
  std::function<std::string(const std::string&)> rename = {};
  /// DataError unless names, shapes and kinds of type all fit; otherwise what fits is loaded, the rest reported.
  bool strict = true;
};

/// Names that start with `prefix` get `replacement` in its place; others stay as they are.
std::function<std::string(const std::string&)> name_with_prefix(std::string prefix, std::string replacement);

/// Names that did not fit, in the order of the module and of the file.
struct StateReport {
  std::vector<std::string> missing;     ///< the module's, which nothing gave a value
  std::vector<std::string> unexpected;  ///< the file's, which the module does not have
  std::vector<std::string> mismatched;  ///< "fc.weight: f32 [3, 2] given, f32 [2, 3] in the module"
  bool empty() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
};
std::string to_string(const StateReport&);

/// Gives the module's parameters and buffers copies of the values, on the devices where they are and in their types:
/// any floating type becomes another, as any integer type does. Parameters keep their identity. Throws DataError, with
/// all that does not fit in one list, when strict; nothing is changed then.
StateReport load_state(Module&, const NamedArrays&, const StateLoading& = {});

/// Loads the state from a safetensors file, PyTorch's for one, as the other load_state. Throws DataError naming the
/// path.
StateReport load_state(Module&, const std::string& path, const StateLoading& = {});

/// Writes `module_state` as a plain safetensors file.
void save_state(Module&, const std::string& path);

}  // namespace tutti
