// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/said_words.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using Bytes = SaidWords::Bytes;

namespace {

Bytes bytes(int value) { return {static_cast<std::byte>(value)}; }

}  // namespace

TEST_CASE("said_words: the k-th of all is there when all have said it, and who has not is told") {
  SaidWords words(3);
  CHECK_FALSE(words.take());
  CHECK(words.missing(0).empty());  // it waits for nothing
  words.add(0, bytes(1));
  words.add(0, bytes(2));
  words.add(2, bytes(3));
  CHECK_FALSE(words.take());
  CHECK(words.missing(0) == std::vector<int>{1});
  CHECK(words.missing(1).empty());
  words.add(1, bytes(4));
  CHECK(words.take() == std::vector<Bytes>{bytes(1), bytes(4), bytes(3)});
  CHECK_FALSE(words.take());
  CHECK(words.missing(0) == std::vector<int>{1, 2});
}

TEST_CASE("said_words: nobody waits for one that is silent, but for what it had said before") {
  SaidWords words(3);
  words.add(1, bytes(1));
  words.silence(1);
  words.silence(2);
  words.add(0, bytes(2));
  words.add(0, bytes(3));
  CHECK(words.take() == std::vector<Bytes>{bytes(2), bytes(1), {}});
  CHECK(words.take() == std::vector<Bytes>{bytes(3), {}, {}});
  CHECK_FALSE(words.take());  // nobody says anything
  words.silence(0);
  CHECK_FALSE(words.take());
}

TEST_SUITE_END();
