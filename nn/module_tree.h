// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/module.h>

#include <string>
#include <typeinfo>

namespace tutti {

/// A model as it is nested, for people to read: a line for each module (name, class, values in the parameters below it)
/// and for each tensor (name, dtype, shape). A tensor shown before is named by where, and counts once.
///
///   Classifier, 2410 values
///     hidden: Linear, 2080 values
///       weight: f32 [32, 64]
///       bias: f32 [32], frozen
///     ...
std::string tree_text(Module&);

/// "Linear" of a Linear; of a class of one's own its name, without namespaces.
std::string class_name(const Module&);
/// Name of any class, without namespaces; empty if it has none that can be read.
std::string class_name(const std::type_info&);

}  // namespace tutti
