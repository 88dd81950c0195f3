// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/tests/test_devices.h>
#include <tutti/train/data/batches.h>

#include <numeric>
#include <vector>

namespace tutti::testing {

/// Example i has inputs [2i, 2i + 1] and target i.
inline Examples numbered(std::int64_t count) {
  std::vector<float> inputs(static_cast<std::size_t>(count * 2));
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i);
  std::vector<std::int64_t> targets(static_cast<std::size_t>(count));
  std::iota(targets.begin(), targets.end(), 0);
  return {Array::from(inputs, {count, 2}, test_device()), Array::from(targets, {count}, test_device())};
}

/// The targets of each batch that is left in the epoch.
inline std::vector<std::vector<std::int64_t>> rest(DataStream<Batch>& stream) {
  std::vector<std::vector<std::int64_t>> targets;
  while (const auto batch = stream.next()) targets.push_back(batch->targets.to_vector<std::int64_t>());
  return targets;
}

}  // namespace tutti::testing
