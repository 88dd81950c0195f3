// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control/admission.h>
#include <tutti/distributed/processes/control/peer_clocks.h>

#include <doctest/doctest.h>

#include <string>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::control;
using namespace std::chrono_literals;

namespace {

Hello hello(std::uint32_t rank, std::uint64_t pid, std::string host = "a") {
  Hello hello;
  hello.rank = rank;
  hello.pid = pid;
  hello.host = std::move(host);
  hello.instance = pid;
  hello.world_size = 3;
  hello.library = "0.1.0";
  hello.instructions = "x86-64-v3";
  return hello;
}

template <class Change> std::string reason(Change change) {
  Admission admission(hello(0, 3));
  Hello other = hello(2, 7, "b");
  change(other);
  return admission.arrive(2, other).value_or("admitted");
}

}  // namespace

TEST_CASE("admission: complete when all have come, who may say so twice") {
  Admission admission(hello(0, 3));
  CHECK(admission.missing() == "ranks 1, 2 are missing; rank 0 has come");
  CHECK_FALSE(admission.arrive(2, hello(2, 7, "b")).has_value());
  CHECK_FALSE(admission.arrive(2, hello(2, 7, "b")).has_value());
  CHECK(admission.missing() == "rank 1 is missing; ranks 0, 2 have come");
  CHECK_FALSE(admission.complete());
  CHECK_FALSE(admission.arrive(1, hello(1, 5)).has_value());
  CHECK(admission.complete());
  REQUIRE(admission.members().size() == 3);
  CHECK(admission.members()[2].host == "b");
  CHECK(admission.name(2) == "rank 2 on b (pid 7)");
}

TEST_CASE("admission: each field that differs is named, with both values") {
  CHECK(reason([](Hello&) {}) == "admitted");
  CHECK(reason([](Hello& other) { other.world_size = 4; }) ==
        "rank 2 on b (pid 7) says world size 4, rank 0 on a (pid 3) says 3");
  const auto differs = [](const std::string& text, auto change) {
    const std::string found = reason(change);
    CHECK_MESSAGE(found.find(text) != std::string::npos, found);
  };
  differs("says protocol version 9, rank 0 on a (pid 3) says 1", [](Hello& other) { other.protocol = 9; });
  differs("says byte order big-endian, rank 0", [](Hello& other) { other.byte_order = ByteOrder::big; });
  differs("says library version 0.2.0, rank 0", [](Hello& other) { other.library = "0.2.0"; });
  differs("says job x, rank 0", [](Hello& other) { other.job = "x"; });
  differs("says instruction level x86-64-v4, rank 0", [](Hello& other) { other.instructions = "x86-64-v4"; });
  differs(
      "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F in the environment of all processes lets them compute with x86-64-v3",
      [](Hello& other) { other.instructions = "x86-64-v4"; });
  differs("says instruction level x86-64-v4 with bf16 in pairs, rank 0",
          [](Hello& other) { other.instructions = std::string("x86-64-v4").append(kWithPairs); });
  differs("glibc.cpu.hwcaps=-AVX2 in the environment of all processes lets them compute with x86-64-v2",
          [](Hello& other) { other.instructions = "x86-64-v2"; });
  differs("says digest of options ff00000000000000, rank 0", [](Hello& other) { other.options[0] = std::byte{0xff}; });
  differs("rank 1 on b (pid 7) came with the key of rank 2", [](Hello& other) { other.rank = 1; });
}

TEST_CASE("admission: instructions for bf16, which have no level, are switched off in all processes") {
  Hello own = hello(0, 3);
  Hello other = hello(2, 7, "b");
  own.instructions = "x86-64-v4";
  other.instructions = std::string("x86-64-v4").append(kWithPairs);
  CHECK(Admission(own).arrive(2, other) ==
        "rank 2 on b (pid 7) says instruction level x86-64-v4 with bf16 in pairs, rank 0 on a (pid 3) says x86-64-v4; "
        "TUTTI_CPU_BF16=0 in the environment of all processes has them compute bf16 in f32");
  own.instructions = std::string("x86-64-v4").append(kWithTiles);
  CHECK(Admission(own).arrive(2, other) ==
        "rank 2 on b (pid 7) says instruction level x86-64-v4 with bf16 in pairs, rank 0 on a (pid 3) says x86-64-v4 "
        "with bf16 in tiles; TUTTI_CPU_BF16=0 in the environment of all processes has them compute bf16 in f32");
}

TEST_CASE("admission: processes have to choose convolutions alike") {
  const Hello own = hello(0, 3);
  Hello other = hello(2, 7, "b");
  other.instructions.append(kWithoutWinograd);
  CHECK(Admission(own).arrive(2, other) ==
        "rank 2 on b (pid 7) says instruction level " + own.instructions +
            " without Winograd's convolutions, rank 0 on a "
            "(pid 3) says " +
            own.instructions + "; TUTTI_CPU_WINOGRAD has to be the same in the environment of all processes");
}

TEST_CASE("admission: two processes of one rank are both named") {
  Admission admission(hello(0, 3));
  CHECK_FALSE(admission.arrive(2, hello(2, 7, "b")).has_value());
  CHECK(admission.arrive(2, hello(2, 8, "c")) ==
        "two processes say that they are rank 2: on b (pid 7) and on c (pid 8)");
}

TEST_CASE("peer_clocks: silence is told once, and its end") {
  const PeerClocks::Time start{};
  PeerClocks clocks(2s);
  clocks.begin(1, start);
  clocks.begin(2, start);
  CHECK(clocks.silent(start + 2s).empty());
  CHECK_FALSE(clocks.heard(2, start + 1s).has_value());
  const auto lost = clocks.silent(start + 2001ms);
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].rank == 1);
  CHECK(lost[0].since == start);
  CHECK(clocks.silent(start + 2500ms).empty());
  CHECK(clocks.heard(1, start + 2600ms) == 2600ms);
  CHECK(clocks.silent(start + 2700ms).empty());
  CHECK(clocks.silent(start + 4601ms).size() == 2);
}

TEST_CASE("peer_clocks: progress has a clock of its own") {
  const PeerClocks::Time start{};
  PeerClocks clocks(2s);
  clocks.begin(1, start);
  clocks.progress(1, 5, start + 1s);
  (void)clocks.heard(1, start + 3s);
  clocks.progress(1, 5, start + 3s);
  const auto read = clocks.read(start + 4s);
  REQUIRE(read.size() == 1);
  CHECK(read[0].silent_for == 1s);
  CHECK(read[0].progress == 5);
  CHECK(read[0].progress_still_for == 3s);
}

TEST_CASE("peer_clocks: an own pause counts for nobody") {
  const PeerClocks::Time start{};
  PeerClocks clocks(2s);
  clocks.begin(1, start);
  clocks.skip(5s, start + 5500ms);
  CHECK(clocks.silent(start + 5500ms).empty());
  CHECK(clocks.read(start + 5500ms)[0].silent_for == 500ms);
  CHECK(clocks.silent(start + 7001ms).size() == 1);
  clocks.end(1);
  CHECK(clocks.read(start + 8s).empty());
}

TEST_SUITE_END();
