// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/processor_limits.h>
#include <tutti/bench.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti::bench {

/// Line that says what one core can do.
std::string limits_text(const ProcessorLimits&);

/// Measurements as a table, a row each under a head of names; columns that are empty in all rows are left out.
std::string table_text(const std::vector<Measurement>&, const std::optional<ProcessorLimits>&);

}  // namespace tutti::bench
