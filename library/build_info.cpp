// SPDX-License-Identifier: Apache-2.0
// Compiled for the shared library (TUTTI_SHARED) and for the static one, with all options of the build.
#include <tutti/version.h>

#include <tutti/backend/build_facts/build_facts.h>
#include <tutti/backend/processor/instruction_sets.h>

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace tutti {

static_assert(std::array{TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH} ==
              std::array{TUTTI_PROJECT_NUMBERS});
static_assert(std::string_view(TUTTI_VERSION) == TUTTI_PROJECT_VERSION, "version.h is of another version than Meson's");

namespace {

std::vector<std::string> needed_instruction_sets() {
  std::vector<std::string> names;
  for (const InstructionSet* each = required_instruction_sets; each->name != nullptr; ++each)
    names.emplace_back(each->name);
  return names;
}

}  // namespace

const char* version() noexcept { return TUTTI_VERSION; }

BuildInfo build_info() {
  const BuildFacts facts = build_facts();
  BuildInfo info{.compiler = facts.compiler,
                 .build = facts.build,
                 .cpu_arch = required_by_cpu_arch,
                 .instruction_sets = needed_instruction_sets(),
                 .features = {TUTTI_FEATURES},
                 .is_shared = false,
                 .file = {}};
#ifdef TUTTI_SHARED
  info.is_shared = true;
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&version), &library) != 0 && library.dli_fname != nullptr) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(library.dli_fname, error);
    info.file = error ? library.dli_fname : path.string();
  }
#endif
  return info;
}

}  // namespace tutti
