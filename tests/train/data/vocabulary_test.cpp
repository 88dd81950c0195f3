// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/train/data/vocabulary.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {
using Values = std::vector<std::int64_t>;
constexpr auto kCharacter = Vocabulary::Unit::character;
}  // namespace

TEST_CASE("vocabulary: bytes in ascending order") {
  const Vocabulary vocabulary("banana\xff");
  CHECK(vocabulary.size() == 4);
  CHECK(vocabulary.encode("nab\xff") == Values{2, 0, 1, 3});
  CHECK(vocabulary.decode(Values{1, 0, 2, 3}) == "ban\xff");
  CHECK(vocabulary.text() == "abn\xff");
  CHECK_THROWS_WITH_AS(vocabulary.encode("abc"), doctest::Contains("\"c\" at offset 2"), DataError);
  CHECK_THROWS_AS(vocabulary.decode(Values{4}), DataError);
  CHECK_THROWS_AS(vocabulary.decode(Values{-1}), DataError);
  CHECK(Vocabulary("").size() == 0);
}

TEST_CASE("vocabulary: characters of UTF-8 of every length") {
  const std::string text = "za\u00e9\u20ac\U0001f600\u07ff\uffff\U0010ffff";
  const Vocabulary vocabulary(text, kCharacter);
  CHECK(vocabulary.size() == 8);
  CHECK(vocabulary.encode("a\u20acz") == Values{0, 4, 1});
  CHECK(vocabulary.decode(vocabulary.encode(text)) == text);
  CHECK(Vocabulary(vocabulary.text(), kCharacter).encode(text) == vocabulary.encode(text));
  CHECK_THROWS_WITH_AS(vocabulary.encode("a\u00e8"), doctest::Contains("\"\u00e8\" at offset 1"), DataError);
}

TEST_CASE("vocabulary: what is not UTF-8 is refused, with the offset") {
  for (const char* bad : {"ab\xff", "ab\xc3", "ab\xc0\x80", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\x80"})
    CHECK_THROWS_WITH_AS(Vocabulary(bad, kCharacter), doctest::Contains("offset 2"), DataError);
}

TEST_SUITE_END();
