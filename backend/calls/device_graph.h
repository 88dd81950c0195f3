// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tutti {

/// Kernels of one device that are queued together, by one call (`Backend::make_graph`).
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual void launch() = 0;  ///< queues them on the device's compute stream
};

}  // namespace tutti
