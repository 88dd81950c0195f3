// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/process_mark.h>

namespace tutti {

/// The process that has the CPU devices' workers: the one that made the first device. In a child (`fork`) loops run on
/// the calling thread alone, and nothing else that needs a worker is possible.
inline const ProcessMark& worker_process() {
  static const ProcessMark process;
  return process;
}

}  // namespace tutti
