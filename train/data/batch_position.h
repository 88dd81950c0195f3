// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tutti {

/// Where a stream of batches stands, and what it must be made of for that to mean the same.
struct BatchPosition {
  std::int64_t epoch = 0;
  std::int64_t step = 0;               ///< the next one
  std::int64_t examples_per_step = 0;  ///< over all devices
  std::string data;                    ///< Dataset::description
  std::string order;                   ///< Sampler::description
};

std::string to_text(const BatchPosition&);  ///< one JSON object
/// Throws DataError for what is no position, and for one of a stream that differs from `own` in anything but epoch and
/// step: it names what differs, and both values.
BatchPosition parse_batch_position(const std::string& text, const BatchPosition& own);

}  // namespace tutti
