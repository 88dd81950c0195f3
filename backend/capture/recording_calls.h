// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/backend.h>
#include <tutti/backend/capture/capture.h>

#include <memory>

namespace tutti {

/// Makes the backend that a capturing thread sees: it passes every call on to the device's own, and adds it to the
/// tape.
std::unique_ptr<Backend> recording_calls(Capture&);

}  // namespace tutti
