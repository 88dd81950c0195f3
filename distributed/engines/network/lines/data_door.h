// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/owned_descriptor.h>

#include <string>

namespace tutti {

/// A process's place for connections of the others of its group: a TCP port of the system's choice at one address.
/// Nothing here blocks.
class DataDoor {
 public:
  /// `address`: a numeric one of this host, of IPv4 or IPv6. Throws Error naming it if it is none, stands for all, or
  /// cannot be listened at.
  explicit DataDoor(const std::string& address);

  int port() const noexcept { return port_; }
  int descriptor() const noexcept { return listener_.get(); }
  OwnedDescriptor accept() const;  ///< the next one that has come; none: nobody waits

  /// Begins a connection to another process's door; it is there when it can be written to. None: nobody listens there.
  static OwnedDescriptor call(const std::string& address, int port);

 private:
  OwnedDescriptor listener_;
  int port_ = 0;
};

}  // namespace tutti
