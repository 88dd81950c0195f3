// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/processor/instruction_sets.h>
#include <tutti/tests/examples/program.h>
#include <tutti/tests/sanitizers.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

std::string program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "backend/processor/processor_program")
      .string();
}

// What the emulated processor `qemu64` has not, and libraries are built for.
bool is_required(const char* name) {
  for (const InstructionSet* set = required_instruction_sets; set->name != nullptr; ++set)
    if (std::strcmp(set->name, name) == 0) return true;
  return false;
}

// Other processors have no such check.
#ifdef __x86_64__
constexpr bool kIsChecked = true;
#else
constexpr bool kIsChecked = false;
#endif

// Sanitizers' memory does not fit into an emulated process.
bool emulates() { return kIsChecked && !kIsSanitized && std::system("command -v qemu-x86_64 >/dev/null 2>&1") == 0; }

}  // namespace

TEST_CASE("processor: one that has the instructions runs the program" * doctest::skip(!kIsChecked)) {
  const Outcome outcome = run_program(program());
  CHECK_MESSAGE(outcome.code == 0, outcome.output);
  CHECK(outcome.output == "2000\n");
}

TEST_CASE("processor: one that lacks instructions is told which, before anything runs (needs qemu-x86_64)" *
          doctest::skip(!emulates())) {
  const Outcome outcome = run_program("qemu-x86_64 -cpu qemu64 " + program());
  CAPTURE(outcome.output);
  if (!is_required("SSSE3")) {  // nor any that came later
    CHECK(outcome.code == 0);
    CHECK(outcome.output == "2000\n");
    return;
  }
  CHECK(outcome.code == 1);
  CHECK(outcome.output.find("[tutti] this processor lacks SSSE3, ") == 0);
  CHECK((outcome.output.find(" AVX2, ") != std::string::npos) == is_required("AVX2"));
  CHECK(outcome.output.find("(-Dcpu_arch=" + std::string(required_by_cpu_arch) + ")") != std::string::npos);
  CHECK(outcome.output.back() == '\n');
}
