// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tutti::launch {

/// "127.0.0.1:port" with a TCP port that is free now, of those that no connection is given while there are such. Until
/// rank 0 listens there another program may take it, which rank 0 then reports. Throws LaunchError.
std::string free_local_rendezvous();

}  // namespace tutti::launch
