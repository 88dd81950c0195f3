// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/devices/device_facts.h>

#include <vector>

namespace tutti {

/// libzmq and libsodium, as they are loaded: what connects processes.
std::vector<ThirdParty> connection_libraries();

}  // namespace tutti
