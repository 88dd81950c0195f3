// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/collective_words.h>

#include <tutti/backend/error.h>

#include <doctest/doctest.h>

#include <algorithm>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using Bytes = ProcessLink::Bytes;

namespace {

const GroupMembers kMembers({{0, cpu(0)}, {1, cpu(0)}, {1, cpu(1)}}, 0);

CollectiveCall gather(std::int64_t rows) {
  return {.kind = CollectiveKind::all_gather, .shape = {rows, 5}, .dtype = DType::i64, .purpose = "epoch 3"};
}

}  // namespace

TEST_CASE("collective_words: all devices' calls come back in the order of their numbers") {
  const Bytes words[] = {words_of({7, {gather(2)}, false}), words_of({7, {gather(0), gather(4)}, true})};
  const PostedCollective all = posted_by_all(words, kMembers);
  CHECK(all.number == 7);
  CHECK(all.differentiable);
  REQUIRE(all.calls.size() == 3);
  for (const std::size_t device : {0, 1, 2}) {
    const CollectiveCall& call = all.calls[device];
    CHECK(call.kind == CollectiveKind::all_gather);
    CHECK(call.dtype == DType::i64);
    CHECK(call.purpose == "epoch 3");
    CHECK(call.shape == Shape{std::vector<std::int64_t>{2, 0, 4}[device], 5});
  }
}

TEST_CASE("collective_words: parts, roots, operations and tensors without axes") {
  const CollectiveCall cut{.kind = CollectiveKind::all_to_all, .lengths = {1, 0, 2}, .shape = {3, 2}};
  const CollectiveCall other{.kind = CollectiveKind::all_to_all, .lengths = {0, 0, 0}, .shape = {0, 2}};
  const Bytes parts[] = {words_of({1, {cut}, false}), words_of({1, {other, cut}, false})};
  CHECK(posted_by_all(parts, kMembers).calls[1].lengths == other.lengths);
  CHECK(posted_by_all(parts, kMembers).calls[2].lengths == cut.lengths);
  const CollectiveCall rooted{.kind = CollectiveKind::broadcast, .root = {1, cpu(1)}, .dtype = DType::boolean};
  const Bytes from[] = {words_of({1, {rooted}, false}), words_of({1, {rooted, rooted}, false})};
  const PostedCollective all = posted_by_all(from, kMembers);
  CHECK(all.calls[0].root == Member{1, cpu(1)});
  CHECK(all.calls[2].shape.empty());
  CHECK(all.calls[2].dtype == DType::boolean);
  CollectiveCall largest{.kind = CollectiveKind::all_reduce, .operation = CollectiveOperation::max, .shape = {4}};
  CollectiveCall sum = largest;
  sum.operation = CollectiveOperation::sum;
  const Bytes mixed[] = {words_of({3, {largest}, false}), words_of({3, {sum, sum}, false})};
  CHECK_THROWS_WITH_AS(posted_by_all(mixed, kMembers),
                       "[sync] collective 3 is all_reduce max [4] f32 on rank 0 cpu:0 and all_reduce sum [4] f32 on "
                       "rank 1 cpu:0",
                       SyncError);
}

TEST_CASE("collective_words: calls for different purposes do not agree, nor does one without") {
  for (const char* purpose : {"epoch 4", ""}) {
    CollectiveCall other = gather(2);
    other.purpose = purpose;
    const Bytes words[] = {words_of({1, {gather(2)}, false}), words_of({1, {other, other}, false})};
    CHECK_THROWS_WITH_AS(posted_by_all(words, kMembers),
                         doctest::Contains("all_gather [2, 5] i64 for epoch 3 on rank 0"), SyncError);
  }
}

TEST_CASE("collective_words: other numbers, and bytes that are no words, are errors that name the rank") {
  const Bytes numbers[] = {words_of({1, {gather(2)}, false}), words_of({2, {gather(2), gather(2)}, false})};
  CHECK_THROWS_WITH_AS(posted_by_all(numbers, kMembers), "[sync] rank 1 has posted collective 2, rank 0 1", SyncError);
  const Bytes good = words_of({1, {gather(2)}, false});
  const Bytes both = words_of({1, {gather(2), gather(2)}, false});
  const auto refused = [&](Bytes bytes) {
    const Bytes words[] = {good, std::move(bytes)};
    CHECK_THROWS_WITH_AS(posted_by_all(words, kMembers), doctest::Contains("[sync] rank 1 said"), SyncError);
  };
  refused({});
  refused(good);  // of one device, where the rank has two
  for (std::size_t length = 0; length < both.size(); ++length) refused({both.begin(), both.begin() + length});
  Bytes longer = both;
  longer.push_back({});
  refused(longer);
  for (const std::size_t at : {8, 9, 10}) {  // kind, operation, dtype
    Bytes unknown = both;
    unknown[at] = std::byte{200};
    refused(unknown);
  }
  Bytes huge = both;
  std::fill_n(huge.begin() + 20, 4, std::byte{255});  // dimensions
  refused(huge);
}

TEST_SUITE_END();
