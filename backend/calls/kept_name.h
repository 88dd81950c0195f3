// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace tutti {

/// The name in memory that lasts until the process ends, each once: nodes, streams and errors keep views of the names
/// that programs give to operations. Thread-safe.
std::string_view kept_name(std::string name);

}  // namespace tutti
