// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/ledger/required_set.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tutti {

/// The registrations of all processes' devices for a generation. Every process has the same one.
struct Agreement {
  struct Registration {
    std::uint32_t set = 0;  ///< place of what the device requires in `sets`
    double weight = 0.0;
    bool contributes = false;  ///< its gradients count
    bool left = false;
    bool follows = false;  ///< has left, and receives results as before
  };

  // Weights are added in the order of the devices' numbers, as in one process.
  double total_weight() const;
  double weight(ParameterId) const;  ///< sum over the devices that require it
  std::uint32_t devices(ParameterId) const;
  std::vector<std::uint32_t> contributors(ParameterId) const;  ///< the devices' numbers, ascending
  bool required_by_same(ParameterId, ParameterId) const;
  bool has_same_sets(const Agreement&) const;  ///< device by device
  bool all_left() const;                       ///< no device of any process comes again

  std::vector<std::shared_ptr<const RequiredSet>> sets;  ///< different ones
  std::vector<Registration> registrations;               ///< indexed by the devices' numbers in the group
  /// Order of the layout's gradients from the next generation on, each parameter once; null: it stays.
  std::shared_ptr<const std::vector<ParameterId>> order{};
};

}  // namespace tutti
