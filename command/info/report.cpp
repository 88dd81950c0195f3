// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/info/report.h>

#include <tutti/command/info/report_sections.h>

namespace tutti::info {

Report make_report() {
  return {{"tutti", fact(build_section)},         {"system", fact(system_section)},
          {"processor", fact(processor_section)}, {"devices", fact(devices_section)},
          {"engines", fact(engines_section)},     {"libraries", fact(libraries_section)},
          {"limits", fact(limits_section)},       {"environment", fact(environment_section)}};
}

}  // namespace tutti::info
