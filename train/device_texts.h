// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tutti {

/// What several devices have to say, each a text of its own, as one text for a checkpoint.
std::string join_texts(std::span<const std::string>);
std::vector<std::string> split_texts(const std::string&);  ///< throws DataError for another text

}  // namespace tutti
