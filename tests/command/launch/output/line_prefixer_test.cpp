// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/output/line_prefixer.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using tutti::launch::LinePrefixer;

namespace {

std::string prefixed(const std::vector<std::string>& blocks, std::size_t longest = 8) {
  LinePrefixer prefixer("[2] ", longest);
  std::string lines;
  for (const std::string& block : blocks) prefixer.take(block, lines);
  prefixer.end(lines);
  return lines;
}

}  // namespace

TEST_CASE("line_prefixer: whole lines, each behind the prefix") {
  CHECK(prefixed({}).empty());
  CHECK(prefixed({"a\n"}) == "[2] a\n");
  CHECK(prefixed({"a\n\nb\n"}) == "[2] a\n[2] \n[2] b\n");
  CHECK(prefixed({std::string("a\0b\r\n", 5)}) == std::string("[2] a\0b\r\n", 9));
}

TEST_CASE("line_prefixer: a line is passed on once its end has come") {
  LinePrefixer prefixer("[2] ");
  std::string lines;
  prefixer.take("on", lines);
  CHECK(lines.empty());
  prefixer.take("e\ntw", lines);
  CHECK(lines == "[2] one\n");
  prefixer.end(lines);
  CHECK(lines == "[2] one\n[2] tw\n");
  prefixer.end(lines);
  CHECK(lines == "[2] one\n[2] tw\n");
}

TEST_CASE("line_prefixer: long lines come in pieces") {
  CHECK(prefixed({"12345678\n"}) == "[2] 12345678\n");
  CHECK(prefixed({"123456789\n"}) == "[2] 12345678\n[2] 9\n");
  CHECK(prefixed({"1234567812345678\n\nx"}) == "[2] 12345678\n[2] 12345678\n[2] \n[2] x\n");
  CHECK(prefixed({"12345678"}) == "[2] 12345678\n");
}

TEST_CASE("line_prefixer: where blocks are cut makes no difference") {
  const std::string text = "a\n12345678\n\n1234567812345678\n123456789012\n\n\nend";
  const std::string expected = prefixed({text});
  for (std::size_t first = 0; first <= text.size(); ++first)
    for (std::size_t second = first; second <= text.size(); ++second)
      CHECK(prefixed({text.substr(0, first), text.substr(first, second - first), text.substr(second)}) == expected);
}

TEST_SUITE_END();
