// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/layout/gradient_layout.h>
#include <tutti/distributed/ledger/sync_ledger.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tutti {

/// The buckets that the ledger will make if all devices require what one of them does. Where they do not, it makes
/// smaller ones.
class ExpectedBuckets {
 public:
  explicit ExpectedBuckets(std::size_t bucket_bytes) : bucket_bytes_(bucket_bytes) {}

  /// Costs nothing while both are what they were. No layout: there are no parameters.
  void update(const std::shared_ptr<const GradientLayout>&, const std::shared_ptr<const RequiredSet>&);
  /// Position in the layout where the bucket of a required parameter begins.
  std::uint32_t number_of(ParameterId id) const { return numbers_[id.value]; }

 private:
  std::size_t bucket_bytes_;
  std::shared_ptr<const GradientLayout> layout_;
  std::shared_ptr<const RequiredSet> required_;
  std::vector<std::uint32_t> numbers_;  // positions where the buckets begin, by ParameterId
};

}  // namespace tutti
