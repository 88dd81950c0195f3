// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/devices/device_facts.h>

namespace tutti {

/// The vendor's library of convolutions; looked for by this call if nobody has before.
ThirdParty convolution_library_facts();

}  // namespace tutti
