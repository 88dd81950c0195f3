// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/random.h>

#include <string>

namespace tutti {

/// State of a generator as text, and the generator that has this state.
std::string generator_text(const Generator&);
Generator parse_generator(const std::string&);  ///< throws DataError for what is no such text

}  // namespace tutti
