// SPDX-License-Identifier: Apache-2.0
// Links of ranks that are threads and have one mapping of each segment, so that race detectors see all.
#include <tutti/distributed/engines/shared_memory/segments/segment_layout.h>
#include <tutti/distributed/engines/shared_memory/shared_memory_communicator.h>
#include <tutti/distributed/process_group/memory_link.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/processes/in_process_link.h>

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

using Line = ProcessLink::Line;
using Bytes = ProcessLink::Bytes;

struct Links {
  explicit Links(std::size_t ranks) {
    auto others = InProcessLinks::make(std::vector<std::uint32_t>(ranks, 1));
    for (std::size_t rank = 0; rank < ranks; ++rank)
      segments.push_back(SharedMemoryCommunicator::make_segment(1, static_cast<int>(rank), {.piece_bytes = 8192}));
    for (std::size_t rank = 0; rank < ranks; ++rank)
      links.push_back(
          std::make_unique<MemoryLink>(std::move(others[rank]), std::make_shared<SegmentWords>(segments, rank)));
  }

  SegmentHead& head(std::size_t rank) const { return *reinterpret_cast<SegmentHead*>(segments[rank]->data()); }

  std::vector<std::shared_ptr<SharedSegment>> segments;
  std::vector<std::unique_ptr<ProcessLink>> links;
};

/// Words of a rank in a round: of many lengths, some of them too long for the shared memory.
Bytes words_of(std::size_t rank, std::size_t round) {
  const std::size_t length = (round * 7 + rank) % 50 == 3 ? 6000 : (round * 31 + rank * 17) % 300;
  Bytes words(length);
  for (std::size_t i = 0; i < length; ++i) words[i] = static_cast<std::byte>(i * 3 + round * 5 + rank);
  return words;
}

/// Waits until the condition holds; false after ten seconds.
bool comes_true(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition())
    if (std::chrono::steady_clock::now() > until)
      return false;
    else
      std::this_thread::yield();
  return true;
}

}  // namespace

// Of three ranks one polls in most rounds and leaves the others to the link's own thread, one sleeps for it, and one
// leaves all to that thread.
TEST_CASE("memory_link: each round's words are heard by all, in order, short or long") {
  constexpr std::size_t kRanks = 3;
  constexpr std::size_t kRounds = 300;
  std::vector<std::atomic<std::size_t>> heard(kRanks);
  std::vector<std::atomic<std::size_t>> wrong(kRanks);
  Links group(kRanks);
  for (std::size_t rank = 0; rank < kRanks; ++rank)
    group.links[rank]->open({.said =
                                 [&, rank](Line line, const std::vector<Bytes>& by_rank) {
                                   if (line != Line::round) return;
                                   for (std::size_t from = 0; from < kRanks; ++from)
                                     if (by_rank[from] != words_of(from, heard[rank])) ++wrong[rank];
                                   ++heard[rank];
                                 },
                             .ended = [&, rank](const auto&) { ++wrong[rank]; }});
  run_devices(kRanks, [&](std::size_t rank) {
    ProcessLink& link = *group.links[rank];
    for (std::size_t round = 0; round < kRounds; ++round) {
      link.say(Line::round, words_of(rank, round));
      const bool came = comes_true([&] {
        if (rank == 0 && round % 50 < 40) link.poll();
        if (rank == 1) link.sleep_to_hear();
        return heard[rank] == round + 1;
      });
      if (!came) throw std::runtime_error("round " + std::to_string(round) + " was not heard");
    }
  });
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    CHECK(heard[rank] == kRounds);
    CHECK(wrong[rank] == 0);
  }
}

TEST_CASE("memory_link: who has not said a round's words is known; other lines go over the other link") {
  std::atomic<int> checks{0};
  Links group(3);
  for (const auto& link : group.links)
    link->open(
        {.said = [&](Line line, const auto&) { checks += line == Line::checks ? 1 : 0; }, .ended = [](const auto&) {}});
  CHECK_FALSE(group.links[0]->sleep_to_hear());
  group.links[0]->say(Line::round, {});
  CHECK(group.links[0]->missing(Line::round) == std::vector{1, 2});
  group.links[2]->say(Line::round, {});
  CHECK(group.links[0]->missing(Line::round) == std::vector{1});
  for (const auto& link : group.links) link->say(Line::checks, {});
  CHECK(comes_true([&] { return checks == 3; }));
  CHECK(group.links[0]->missing(Line::round) == std::vector{1});
}

// Rank 1 goes on to the round before it has said anything of its replicas.
TEST_CASE("memory_link: what was said of replicas is heard before the next round, by who has said it") {
  std::vector<std::string> heard(2);
  std::mutex mutex;
  Links group(2);
  for (std::size_t rank = 0; rank < 2; ++rank)
    group.links[rank]->open({.said =
                                 [&, rank](Line line, const auto&) {
                                   const std::lock_guard lock(mutex);
                                   heard[rank] += line == Line::round ? "round " : "check ";
                                 },
                             .ended = [](const auto&) {}});
  const auto heard_by = [&](std::size_t rank) {
    const std::lock_guard lock(mutex);
    return heard[rank];
  };
  group.links[0]->say(Line::checks, {});
  group.links[0]->say(Line::round, {});
  group.links[1]->say(Line::round, {});
  CHECK(comes_true([&] { return heard_by(1) == "round "; }));
  group.links[0]->poll();
  CHECK_FALSE(group.links[0]->sleep_to_hear());
  CHECK(group.links[0]->missing(Line::round) == std::vector{1});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its thread has had time
  CHECK(heard_by(0) == "");
  group.links[1]->say(Line::checks, {});
  CHECK(comes_true([&] { return heard_by(0) == "check round "; }));
}

// Nobody comes by: it is heard by the thread that hears of the end.
TEST_CASE("memory_link: what a process has said before its end is heard before that") {
  for (int turn = 0; turn < 20; ++turn) {
    std::atomic<int> said{0};
    std::atomic<int> said_before{-1};
    Links group(2);
    group.links[0]->open(
        {.said = [&](Line, const auto&) { ++said; }, .ended = [&](const auto&) { said_before = said.load(); }});
    group.links[1]->open({.said = [](Line, const auto&) {}, .ended = [](const auto&) {}});
    group.links[0]->say(Line::round, words_of(0, 1));
    group.links[1]->say(Line::round, words_of(1, 1));
    group.links[1]->end({1, "the end", 0, false});
    CHECK(comes_true([&] { return said_before >= 0; }));
    CHECK(said_before == 1);
  }
}

TEST_CASE("memory_link: a length that no process can have said is an error that names the rank") {
  std::string text;
  std::atomic<bool> ended{false};
  Links group(2);
  group.links[0]->open({.said = [](Line, const auto&) {},
                        .ended =
                            [&](const ProcessLink::End& end) {
                              text = end.text;
                              ended = true;
                            }});
  group.links[1]->open({.said = [](Line, const auto&) {}, .ended = [](const auto&) {}});
  group.links[1]->say(Line::round, {});
  group.head(1).words[1].bytes = 5000;
  group.links[0]->say(Line::round, {});
  group.links[0]->poll();
  REQUIRE(comes_true([&] { return ended.load(); }));
  CHECK(text.find("rank 1 says that it has said 5000 bytes") != std::string::npos);
}

TEST_CASE("memory_link: closes while words are awaited") {
  std::atomic<int> calls{0};
  const auto count = [&](const auto&...) { ++calls; };
  Links group(2);
  for (const auto& link : group.links) link->open({.said = count, .ended = count});
  group.links[0]->say(Line::round, {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its thread sleeps
  group.links[0]->close();
  group.links[1]->say(Line::round, {});
  group.links[1]->poll();
  group.links[1].reset();
  CHECK(calls == 1);  // rank 1's own
}

TEST_SUITE_END();
