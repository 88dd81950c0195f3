// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <cstddef>
#include <optional>
#include <string>

namespace tutti {

class GradientSync;

/// How a device reads its data: what its DataStream says of it, and the device's name in errors.
struct ReadShare {
  std::string name;
  std::size_t devices = 0;
  std::string division;
  std::string position;
};

/// Compares how the devices of several processes read their data, `what`. A collective: each device's thread calls it
/// at the same place; `own` is none where it has no data now. Error on all devices, naming two of them and both values,
/// if shares of data that are divided among devices are not of one division, at one position; and if the data are
/// divided among nobody and all devices would read the same. Throws the group's SyncError.
void check_division(GradientSync&, Device, const char* what, const std::optional<ReadShare>& own);

}  // namespace tutti
