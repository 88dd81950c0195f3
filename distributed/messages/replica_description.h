// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/layout/gradient_layout.h>

#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// The parameters or buffers of a replica, in the order of its members.
struct ReplicaDescription {
  std::string holder;  ///< name of the member that has it
  std::span<const SyncParameter> members;
};

/// Throws SyncError unless two replicas have the same names, shapes, dtypes and sparseness in the same order: names the
/// first that differs, both devices and both values. `kind`: "parameter" or "buffer".
void refuse_difference(std::string_view kind, const ReplicaDescription& mine, const ReplicaDescription& other);

}  // namespace tutti
