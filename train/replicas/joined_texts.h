// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Joins what several devices have to say, each a text of its own, into one text for a checkpoint.
std::string join_texts(std::span<const std::string>);
std::vector<std::string> split_texts(const std::string&);  ///< throws DataError for another text

}  // namespace tutti
