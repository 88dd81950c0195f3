// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// Text of a file of the system, without blanks at its end; "" where there is none that can be read.
std::string text_of_file(const std::filesystem::path&);

std::vector<std::string> lines_of_text(const std::string&);

/// The value of the first line "NAME : value", as /proc has them; "" where there is none.
std::string field_of(const std::string& text, std::string_view name);

}  // namespace tutti
