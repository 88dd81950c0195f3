// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/distributed/engines/nccl/nccl_functions.h>

#include <string>
#include <string_view>

namespace tutti {

/// Capabilities of NCCL here: those that the build's header declares and the version of the library that is loaded has.
class NcclVersion {
 public:
  /// Asks the library. Throws SyncError if it is older than 2.18, the first whose communicators never block.
  explicit NcclVersion(Device);

  std::string text() const;          ///< "2.26.5"
  bool can_revoke() const noexcept;  ///< ncclCommRevoke, of 2.28.7
  bool can_shrink() const noexcept;  ///< ncclCommShrink, of 2.27.3
  /// Such as "NCCL 2.26.5 lacks ncclCommShrink (2.27.3) and ncclCommRevoke (2.28.7)"; empty if it lacks nothing.
  std::string lacks() const;

 private:
  int code_ = 0;
};

/// Throws SyncError naming operation, device, call and NCCL's own text; for ncclInvalidUsage with what NCCL says of its
/// cause. ncclInProgress is no error.
void check_nccl(ncclResult_t, const char* call, Device, std::string_view operation);

}  // namespace tutti

/// Every call of NCCL goes through this: TUTTI_NCCL(device, "all_reduce", ncclAllReduce(...)).
#define TUTTI_NCCL(device, operation, call) ::tutti::check_nccl((call), #call, device, operation)
