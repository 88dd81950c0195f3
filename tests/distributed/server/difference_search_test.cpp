// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/difference_search.h>

#include <tutti/backend/error.h>

#include <doctest/doctest.h>

#include <random>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using Bytes = ProcessLink::Bytes;

namespace {

ReplicaDigest items(std::size_t count) {
  ReplicaDigest all;
  for (std::size_t i = 0; i < count; ++i) all.push_back({"item " + std::to_string(i), {i, 7 * i}});
  return all;
}

/// What processes with these items find, "" for nothing, and in how many exchanges. Those without items say nothing.
std::string found(const std::vector<ReplicaDigest>& by_rank, int* exchanges = nullptr) {
  std::vector<DifferenceSearch> searches;
  for (const ReplicaDigest& each : by_rank) searches.emplace_back(3, each);
  for (int count = 1;; ++count) {
    REQUIRE(count < 100);
    if (exchanges != nullptr) *exchanges = count;
    std::vector<Bytes> words;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank)
      words.push_back(by_rank[rank].empty() ? Bytes() : searches[rank].words());
    std::vector<DifferenceSearch::Answer> answers;
    for (DifferenceSearch& search : searches) answers.push_back(search.hear(words));
    for (std::size_t rank = 1; rank < answers.size(); ++rank) CHECK(answers[rank].index() == answers[0].index());
    if (std::holds_alternative<DifferenceSearch::Equal>(answers[0])) return "";
    if (const auto* text = std::get_if<DifferenceSearch::Found>(&answers[0])) return text->text;
  }
}

}  // namespace

TEST_CASE("difference_search: what is equal takes one exchange, and those that say nothing do not count") {
  int exchanges = 0;
  CHECK(found({items(1000), items(1000), items(1000)}, &exchanges) == "");
  CHECK(exchanges == 1);
  CHECK(found({items(5), {}, items(5)}) == "");
}

TEST_CASE(
    "difference_search: the first difference of any, in as many exchanges as the items' number has bits, and two") {
  std::mt19937 random(5);
  for (const std::size_t count : {1U, 2U, 3U, 7U, 64U, 1000U})
    for (int round = 0; round < 20; ++round) {
      std::vector<ReplicaDigest> all(3, items(count));
      const std::size_t rank = 1 + random() % 2;
      const std::size_t first = random() % count;
      all[rank][first].digest.second ^= 1U;
      if (first + 1 < count) all[3 - rank][first + 1].digest.first ^= 4U;  // a later one elsewhere
      int exchanges = 0;
      const std::string text = found(all, &exchanges);
      CAPTURE(text);
      CHECK(text.starts_with("item " + std::to_string(first) + " is not the same on rank " + std::to_string(rank) +
                             " (digest "));
      CHECK((std::size_t{1} << static_cast<unsigned>(std::max(0, exchanges - 3))) <= count);
    }
}

TEST_CASE("difference_search: items of other names, and more of them") {
  auto other = items(4);
  other[2].name = "another";
  CHECK(found({items(4), other}) == "rank 1 has another where rank 0 has item 2");
  CHECK(found({items(4), items(6)}) == "rank 1 has item 4 where rank 0 has nothing more");
  CHECK(found({items(6), items(4)}) == "rank 1 has nothing more where rank 0 has item 4");
}

TEST_CASE("difference_search: bytes that are no words, and another subject, name the rank") {
  DifferenceSearch search(3, items(4));
  const Bytes good = search.words();
  for (std::size_t length = 1; length < good.size(); ++length) {
    const std::vector<Bytes> words{good, {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)}};
    CHECK_THROWS_WITH_AS(search.hear(words), doctest::Contains("[sync] rank 1 said"), SyncError);
  }
  const DifferenceSearch other(4, items(4));
  CHECK_THROWS_WITH_AS(search.hear(std::vector<Bytes>{good, other.words()}),
                       "[sync] rank 1 compares its replicas before generation 4, this process before 3", SyncError);
}

TEST_SUITE_END();
