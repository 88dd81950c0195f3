// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/command/info/report.h>

#include <exception>

namespace tutti::info {

/// The result of `find`, or why it could not be found out.
template <class F> Report fact(const F& find) {
  try {
    return find();
  } catch (const std::exception& error) {
    return {{"trouble", error.what()}};
  }
}

// Sections of the report. Each may throw; facts in it which are likely to do not.
Report build_section();        ///< the library, and how it was built
Report system_section();       ///< kernel, distribution, C library
Report processor_section();    ///< the processor and memory
Report devices_section();      ///< devices of the library
Report engines_section();      ///< engines between processes
Report libraries_section();    ///< third parties
Report limits_section();       ///< limits of this process
Report environment_section();  ///< variables; secrets without their values

}  // namespace tutti::info
