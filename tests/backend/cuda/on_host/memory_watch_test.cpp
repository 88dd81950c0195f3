// SPDX-License-Identifier: Apache-2.0
// What watches kernels' memory finds their faults. The kernels stand in watched_kernels.cpp, whose accesses are seen.
#include <tutti/tests/backend/cuda/on_host/memory_watch.h>
#include <tutti/tests/backend/cuda/on_host/watched_kernels.h>

#include <tutti/tests/backend/cuda/on_host/grid.h>

#include <doctest/doctest.h>

#include <array>
#include <string>

TEST_SUITE_BEGIN("cpu");

namespace tutti::on_host {
namespace {

std::string fault_of(void (*kernel)(const int*, int*), unsigned blocks = 1) {
  std::array<int, 66> from{};
  std::array<int, 66> to{};
  const LentMemory input("the input", from.data(), 64 * sizeof(int), Lending::reading);
  const LentMemory output("the output", to.data(), 64 * sizeof(int), Lending::writing);
  try {
    launch_watched(kernel, blocks, from.data(), to.data());
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "none";
}

bool tells(const std::string& fault, std::string_view part) { return fault.find(part) != std::string::npos; }

TEST_CASE("accesses outside of what is lent are faults") {
  CHECK(fault_of(watched::copy) == "none");
  CHECK(tells(fault_of(watched::read_behind), "thread 63 of block 0 reads 4 bytes at "));
  CHECK(tells(fault_of(watched::write_before), "thread 0 of block 0 writes 4 bytes at "));
  CHECK(tells(fault_of(watched::write_input), "writes 4 bytes at offset 0 of the input, which is for reading"));
}

TEST_CASE("accesses that no barrier orders are faults") {
  CHECK(fault_of(watched::reverse) == "none");
  CHECK(tells(fault_of(watched::reverse_without_barrier), "of shared memory, which"));
  CHECK(tells(fault_of(watched::write_same_place), "of the output, which thread 0 of the block wrote with no barrier"));
  CHECK(fault_of(watched::copy, 1) == "none");
  CHECK(tells(fault_of(watched::copy, 2), "of another block wrote with no barrier between"));
}

TEST_CASE("a barrier of a warp orders its own lanes alone") {
  CHECK(fault_of(watched::reverse_in_warps) == "none");
  CHECK(tells(fault_of(watched::reverse_across_warps), "of shared memory, which"));
}

}  // namespace
}  // namespace tutti::on_host

TEST_SUITE_END();
