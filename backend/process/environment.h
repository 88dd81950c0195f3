// SPDX-License-Identifier: Apache-2.0
#pragma once

// Variables of the environment that begin with TUTTI_. An empty one counts as unset; one that says nothing that could
// be meant throws Error, naming variable and value.

#include <optional>
#include <string>

namespace tutti {

std::optional<std::string> environment_text(const char* name);  ///< none: unset or empty
int environment_number(const char* name, int otherwise, int least, int most);
bool environment_switch(const char* name);  ///< 1: on; 0 or unset: off

}  // namespace tutti
