// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/ledger/expected_buckets.h>

#include <algorithm>

namespace tutti {

void ExpectedBuckets::update(const std::shared_ptr<const GradientLayout>& layout,
                             const std::shared_ptr<const RequiredSet>& required) {
  if (layout == nullptr || (layout_ == layout && required_ == required)) return;
  layout_ = layout;
  required_ = required;
  numbers_.assign(layout->places().size(), 0);
  std::vector<std::uint32_t> positions;
  for (const ParameterId id : required->parameters()) positions.push_back(layout->position_of(id));
  std::ranges::sort(positions);
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const bool neighbour = i > 0 && positions[i] == positions[i - 1] + 1;
    if (!neighbour || !layout->fits_bucket(first, positions[i], bucket_bytes_)) first = positions[i];
    numbers_[layout->places()[positions[i]].parameter.value] = first;
  }
}

}  // namespace tutti
