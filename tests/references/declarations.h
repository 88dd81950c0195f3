// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <istream>
#include <map>
#include <string>

namespace tutti::testing {

/// Free functions that take a Tensor, or options of one, by name, with the text of each of their declarations.
using Declarations = std::multimap<std::string, std::string>;

Declarations declared_functions(std::istream& header);
Declarations declared_functions();  ///< of the headers in autodiff/ and nn/

}  // namespace tutti::testing
