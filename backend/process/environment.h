// SPDX-License-Identifier: Apache-2.0
#pragma once

// Variables of the environment that begin with TUTTI_. An empty one counts as unset; one that says nothing that could
// be meant throws Error, naming variable and value.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

std::optional<std::string> environment_text(const char* name);  ///< none: unset or empty
int environment_number(const char* name, int otherwise, int least, int most);
bool environment_switch(const char* name);  ///< 1: on; 0 or unset: off

bool is_own_variable(std::string_view name);  ///< begins with TUTTI_
/// Names and values of the variables that are set and wanted, to be shown: of those that name a secret (a password, a
/// token, a key) in place of the value that it is not shown.
std::vector<std::pair<std::string, std::string>> shown_variables(const std::function<bool(std::string_view)>& wanted);

}  // namespace tutti
