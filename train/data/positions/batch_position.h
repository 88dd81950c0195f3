// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tutti {

/// Position of a stream of batches, and what the stream must be made of for that to mean the same. How many devices
/// share a step, and how large it is, is no part of it.
struct BatchPosition {
  std::int64_t epoch = 0;
  std::int64_t examples = 0;  ///< examples of the epoch's order that were given, over all devices
  std::string data;           ///< Dataset::description
  std::string order;          ///< Sampler::description
};

std::string to_text(const BatchPosition&);  ///< one JSON object
/// Throws DataError for what is no position, and for one of a stream that differs from `own` in data or
/// order: it names what differs, and both values.
BatchPosition parse_batch_position(const std::string& text, const BatchPosition& own);

}  // namespace tutti
