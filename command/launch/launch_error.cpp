// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/launch_error.h>

#include <cerrno>
#include <cstring>

namespace tutti::launch {

void raise_errno(const std::string& what) { raise_errno(what, errno); }

void raise_errno(const std::string& what, int error) {
  throw LaunchError(kCannotLaunch, fmt::format("cannot {}: {}", what, std::strerror(error)));
}

}  // namespace tutti::launch
