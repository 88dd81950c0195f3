// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tutti {

/// The others' shares of parameters on their way to a device: what a sharded optimizer tells the device's side of its
/// group. Used by the thread that drives the device.
class PendingGathers {
 public:
  virtual void join() = 0;             ///< waits until the parameters are whole; throws if they will never be
  virtual void settle() noexcept = 0;  ///< waits for gathers under way; their failure shows in ShareProgress

 protected:
  ~PendingGathers() = default;
};

}  // namespace tutti
