// SPDX-License-Identifier: Apache-2.0
// Compiled with words of the build's options (TUTTI_BUILD).
#include <tutti/backend/build_facts/build_facts.h>

#include <tutti/backend/processor/instruction_sets.h>

#include <fmt/format.h>

namespace tutti {

namespace {

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

}  // namespace

BuildFacts build_facts() { return {.compiler = compiler(), .build = TUTTI_BUILD, .level = instruction_level}; }

}  // namespace tutti
