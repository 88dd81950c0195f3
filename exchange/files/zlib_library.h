// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/devices/device_facts.h>

namespace tutti {

/// zlib, as it is loaded: what packs .npz files.
ThirdParty zlib_library();

}  // namespace tutti
