// SPDX-License-Identifier: Apache-2.0
// Memory behind the reserved addresses of a segment.
#include <tutti/distributed/engines/shared_memory/segments/shared_memory.h>

#include <tutti/backend/error.h>
#include <tutti/backend/random.h>

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

constexpr std::size_t kPage = 4096;

std::int64_t pages_of(const SharedSegment& segment) {
  struct stat status {};
  REQUIRE(fstat(segment.descriptor(), &status) == 0);
  return status.st_blocks / 8;
}

bool is_all(const std::byte* data, std::size_t bytes, int value) {
  return std::all_of(data, data + bytes, [&](std::byte each) { return each == static_cast<std::byte>(value); });
}

}  // namespace

TEST_CASE("shared_memory: memory is taken with an array; that of the last few is kept for others of their size") {
  const auto segment = SharedSegment::make("test", kPage, 64 * kPage);
  CHECK(segment->bytes() == 65 * kPage);
  CHECK(pages_of(*segment) == 1);
  SharedMemory memory(segment, kPage);
  for (int round = 0; round < 3; ++round) {
    auto ten = memory.allocate(10 * kPage, Held::briefly);
    REQUIRE(ten);
    CHECK(is_all(ten.get(), 10 * kPage, 0));
    std::memset(ten.get(), 7, 10 * kPage);
    CHECK(pages_of(*segment) == 11);
  }
  CHECK(memory.left() == 64 * kPage);
  for (const std::size_t pages : {1, 2, 3, 4})
    CHECK(is_all(memory.allocate(pages * kPage, Held::briefly).get(), pages * kPage, 0));
  CHECK(pages_of(*segment) == 5);  // each gave back what was kept, as it had another size
  const auto all = memory.allocate(64 * kPage, Held::briefly);
  REQUIRE(all);
  CHECK(is_all(all.get(), 64 * kPage, 0));
  CHECK_FALSE(memory.allocate(1, Held::briefly));
  CHECK(memory.left() == 0);
}

TEST_CASE("shared_memory: arrays come and go in any order, are zeros, and no address is lost") {
  const auto segment = SharedSegment::make("test", kPage, std::size_t{1} << 20U);
  SharedMemory memory(segment, kPage);
  Generator random(1);
  std::vector<std::shared_ptr<std::byte>> arrays(20);
  for (int i = 0; i < 2000; ++i) {
    auto& array = arrays[random.below(arrays.size())];
    array.reset();
    const std::size_t bytes = 1 + random.below(60'000);
    array = memory.allocate(bytes, Held::briefly);
    if (array && !is_all(array.get(), bytes, 0)) FAIL("not zeros");
    if (array) std::memset(array.get(), 1, bytes);
  }
  arrays.clear();
  CHECK(memory.left() == std::size_t{1} << 20U);
  CHECK(memory.allocate(std::size_t{1} << 20U, Held::briefly));
}

TEST_CASE("shared_memory: a child of the process takes and gives back nothing") {
  const auto segment = SharedSegment::make("test", kPage, std::size_t{1} << 20U);
  SharedMemory memory(segment, kPage);
  std::vector<std::shared_ptr<std::byte>> arrays;
  for (int i = 0; i < 8; ++i) {
    arrays.push_back(memory.allocate(kPage, Held::briefly));
    std::memset(arrays.back().get(), 7, kPage);
  }
  std::byte* const first = arrays.front().get();
  const pid_t child = fork();
  if (child == 0) {
    arrays.clear();  // more than are kept
    int refused = 0;
    for (const std::size_t bytes : {kPage, kPage + 100}) try {  // one that is kept, and one that is not
        (void)memory.allocate(bytes, Held::briefly);
      } catch (const SyncError&) {
        ++refused;
      }
    _exit(refused == 2 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(is_all(first, 8 * kPage, 7));
}

TEST_CASE("shared_memory: a block for which there was no memory is not kept as one that has it") {
  const auto all = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto segment = SharedSegment::make("test", kPage, 2 * all);
  SharedMemory memory(segment, kPage);
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS((void)memory.allocate(all + all / 2, Held::briefly), OutOfMemoryError);
  CHECK(memory.left() == 2 * all);
  CHECK(pages_of(*segment) == 1);
}

TEST_CASE("shared_memory: reserved addresses are in no core dump") {
  const auto segment = SharedSegment::make("tutti-test", kPage, std::size_t{1} << 20U);
  const auto begin = reinterpret_cast<std::uintptr_t>(segment->data() + kPage);
  std::ifstream maps("/proc/self/smaps");
  bool is_there = false;
  std::string flags;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("tutti-test") != std::string::npos) is_there = std::stoull(line, nullptr, 16) == begin;
    if (is_there && line.starts_with("VmFlags:") && flags.empty()) flags = line;
  }
  CHECK(flags.find(" dd") != std::string::npos);
}

TEST_CASE("shared_memory: where addresses are few, fewer are reserved") {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{std::size_t{64} << 20U, std::size_t{64} << 20U};  // of a file
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto segment = SharedSegment::make("test", kPage, std::size_t{1} << 30U);
    bool is_named = false;
    try {
      (void)SharedSegment::make("too large", limit.rlim_cur + kPage, 0);
    } catch (const Error& error) {
      is_named = std::string(error.what()).find("ulimit -f") != std::string::npos;
    }
    _exit(is_named && segment->bytes() > kPage && segment->bytes() <= limit.rlim_cur ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_SUITE_END();
