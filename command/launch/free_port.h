// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tutti::launch {

/// "127.0.0.1:port" with a TCP port that is free now. Until rank 0 listens there another program may take it, which
/// rank 0 then reports. Throws LaunchError.
std::string free_local_rendezvous();

}  // namespace tutti::launch
