// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/ledger/sync_ledger.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tutti::testing {

/// The rules again, in the plainest way: nothing is counted, everything is looked at whenever it is asked about.
struct LedgerReference {
  struct Device {
    bool left = false;
    bool leaving = false;
    bool registered = false;
    bool synced = false;
    double weight = 0.0;
    std::vector<bool> required;
    std::vector<bool> submitted;
  };
  using Run = std::vector<std::uint32_t>;  ///< parameters of a bucket, in layout order

  LedgerReference(std::size_t members, std::vector<SyncParameter> all, std::size_t bytes)
      : devices(members), parameters(std::move(all)), bucket_bytes(bytes), launched(parameters.size()) {
    for (Device& device : devices) forget(device);
  }

  void forget(Device& device) const {
    device.registered = device.synced = false;
    device.weight = 0.0;
    device.required.assign(parameters.size(), false);
    device.submitted.assign(parameters.size(), false);
  }

  void next_generation() {
    for (Device& device : devices) {
      forget(device);
      device.left = device.left || device.leaving;
      device.leaving = false;
    }
    launched.assign(parameters.size(), false);
  }

  bool all_registered() const {
    return std::ranges::all_of(devices, [](const Device& device) { return device.left || device.registered; });
  }
  bool all_synced() const {
    return std::ranges::all_of(devices, [](const Device& device) { return device.left || device.synced; });
  }
  bool all_left() const { return std::ranges::all_of(devices, &Device::left); }

  double weight() const {
    double total = 0.0;
    for (const Device& device : devices) total += device.weight;
    return total;
  }

  bool required_by_same(std::uint32_t lhs, std::uint32_t rhs) const {
    return std::ranges::all_of(devices,
                               [&](const Device& device) { return device.required[lhs] == device.required[rhs]; });
  }
  bool required_by_any(std::uint32_t id) const {
    return std::ranges::any_of(devices, [&](const Device& device) { return bool{device.required[id]}; });
  }

  /// From the first byte of the first to the last of the last; each begins at a multiple of 64.
  std::size_t bytes_of(const Run& run) const {
    std::size_t total = 0;
    for (const std::uint32_t id : run) {
      total = (total + 63) / 64 * 64;
      total += static_cast<std::size_t>(element_count(parameters[id].shape)) * size_of(parameters[id].dtype);
    }
    return total;
  }

  std::vector<Run> buckets(const GradientLayout& layout) const {
    std::vector<Run> runs;
    bool adjacent = false;
    for (const GradientLayout::Place& place : layout.places()) {
      const std::uint32_t id = place.parameter.value;
      if (!required_by_any(id)) {
        adjacent = false;
        continue;
      }
      bool joins = adjacent && parameters[runs.back().back()].dtype == parameters[id].dtype &&
                   !parameters[runs.back().back()].sparse && !parameters[id].sparse &&
                   required_by_same(runs.back().back(), id);
      if (joins) {
        runs.back().push_back(id);
        joins = bytes_of(runs.back()) <= bucket_bytes;
        if (!joins) runs.back().pop_back();
      }
      if (!joins) runs.push_back({id});
      adjacent = true;
    }
    return runs;
  }

  bool complete(const Run& run) const {
    return std::ranges::all_of(devices, [&](const Device& device) {
      return std::ranges::all_of(run, [&](std::uint32_t id) { return !device.required[id] || device.submitted[id]; });
    });
  }

  std::vector<Device> devices;
  std::vector<SyncParameter> parameters;
  std::size_t bucket_bytes;
  std::vector<bool> launched;  ///< in this generation
};

}  // namespace tutti::testing
