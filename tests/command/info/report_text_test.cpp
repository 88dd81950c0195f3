// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/info/report.h>

#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using tutti::info::Report;
using tutti::info::to_text;

TEST_CASE("info: facts are aligned, with units") {
  const Report report{{"first",
                       {{"a_name", "x"},
                        {"some_bytes", 1536},
                        {"truth", true},
                        {"list", {"a", "b"}},
                        {"share", 1.5},
                        {"nothing", Report::array()},
                        {"parts", {{"one_bytes", 1 << 30}, {"two", "unlimited"}}}}},
                      {"second",
                       {{"good", {{"usable", true}}},
                        {"bad", {{"usable", false}, {"note", "why"}}},
                        {"lib", {{"version", "1.2"}, {"note", "uses AVX2"}}},
                        {"none", {{"version", ""}, {"note", "not found"}}},
                        {"odd", {{"trouble", "broken"}}}}},
                      {"environment", Report::object()}};
  CHECK(to_text(report) ==
        "first\n"
        "  a name   x\n"
        "  some     1.5 KiB\n"
        "  truth    yes\n"
        "  list     a b\n"
        "  share    1.50\n"
        "  nothing  none\n"
        "  parts    one 1.0 GiB, two unlimited\n"
        "second\n"
        "  good     yes\n"
        "  bad      no: why\n"
        "  lib      1.2 (uses AVX2)\n"
        "  none     none: not found\n"
        "  odd      not known: broken\n"
        "environment\n"
        "  nothing is set\n");
}

TEST_CASE("info: long values go on below their beginning, and control characters are none") {
  std::string words = "word";
  for (int i = 0; i < 40; ++i) words += " word";
  const std::string text = to_text(Report{{"s", {{"name", words}, {"again", words}, {"n", "a\x1b[2J\nb"}}}});
  CAPTURE(text);
  CHECK(text.find("\n         word") != std::string::npos);
  CHECK(text.find("\n  again  the same\n") != std::string::npos);
  CHECK(text.find("\n  n      a?[2J?b\n") != std::string::npos);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    CHECK(end - begin <= 118);
    begin = end + 1;
  }
}

TEST_SUITE_END();
