// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace tutti::info {

/// An object of sections, each an object of facts, in the order in which they are shown. A fact is a text, a number, a
/// truth, a list or an object of these; what could not be found out is an object with the one member "trouble".
using Report = nlohmann::ordered_json;

/// All that a report of a problem needs to say of this process. Nothing that is missing makes it throw.
Report make_report();

/// The report in lines, aligned: names of facts with blanks for underscores, sizes ("..._bytes") with units.
std::string to_text(const Report&);

}  // namespace tutti::info
