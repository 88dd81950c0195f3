// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/tests/exchange/complaint.h>
#include <tutti/train/data/dataset.h>

#include <algorithm>
#include <numeric>
#include <set>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

std::string row(int pixel, int digit) {
  std::string line;
  for (int i = 0; i < 64; ++i) line += std::to_string(pixel) + ",";
  return line + std::to_string(digit) + "\n";
}

std::string complaint(const std::string& contents) { return complaint_of(load_digits, contents); }

Examples numbered(std::int64_t count) {
  std::vector<float> inputs(static_cast<std::size_t>(count * 3));
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i / 3);
  std::vector<std::int64_t> targets(static_cast<std::size_t>(count));
  std::iota(targets.begin(), targets.end(), 0);
  return {Array::from(inputs, {count, 3}, cpu()), Array::from(targets, {count}, cpu())};
}

}  // namespace

TEST_CASE("load_digits: the file of the examples") {
  const Examples digits = load_digits("examples/data/digits.csv.gz");
  CHECK(digits.size() == 1797);
  CHECK(digits.inputs.shape() == Shape{1797, 1, 8, 8});
  CHECK(digits.inputs.dtype() == DType::f32);
  CHECK(digits.targets.shape() == Shape{1797});
  const std::vector<float> pixels = digits.inputs.to_vector<float>();
  const std::vector<std::int64_t> targets = digits.targets.to_vector<std::int64_t>();
  CHECK(pixels[2] == 5.0F / 16);
  CHECK(*std::max_element(pixels.begin(), pixels.end()) == 1.0F);
  CHECK(*std::min_element(pixels.begin(), pixels.end()) == 0.0F);
  CHECK(targets[0] == 0);
  CHECK(targets[1796] == 8);
  CHECK(std::count(targets.begin(), targets.end(), 3) == 183);  // as UCI's description says
}

TEST_CASE("load_digits: plain text, line ends of Windows, no line end at the end") {
  const TemporaryFolder folder;
  const std::string path = folder.file("digits.csv");
  std::string contents = row(16, 9);
  contents.insert(contents.size() - 1, "\r");
  contents += row(0, 4);
  contents.pop_back();
  write_file(path, contents);
  const Examples digits = load_digits(path);
  CHECK(digits.targets.to_vector<std::int64_t>() == std::vector<std::int64_t>{9, 4});
  CHECK(digits.inputs.to_vector<float>()[63] == 1.0F);
  CHECK(digits.inputs.to_vector<float>()[64] == 0.0F);
}

TEST_CASE("load_digits: what cannot be opened or read") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(load_digits(folder.file("none.csv")), doctest::Contains("No such file"), DataError);
  CHECK_THROWS_AS(load_digits(folder.path().string()), DataError);
  CHECK(mentions(complaint(""), "no examples"));
}

TEST_CASE("load_digits: malformed lines are named") {
  const std::string good = row(1, 2);
  CHECK(mentions(complaint(good + good.substr(2)), "line 2: 64 columns, expected 65"));
  CHECK(mentions(complaint(good + "1," + good), "line 2: 66 columns"));
  CHECK(mentions(complaint(good + "\n" + good), "line 2: 1 columns"));
  CHECK(mentions(complaint("x" + good), "line 1, column 1: \"x1\" is not a whole number"));
  CHECK(mentions(complaint(good + good + "1.5" + good.substr(1)), "line 3, column 1: \"1.5\""));
  CHECK(mentions(complaint(good.substr(1)), "column 1: \"\" is not"));
  CHECK(mentions(complaint("17" + good.substr(1)), "column 1: 17 is not in 0 to 16"));
  CHECK(mentions(complaint("-1" + good.substr(1)), "column 1: -1 is not in 0 to 16"));
  CHECK(mentions(complaint("99999999999999999999" + good.substr(1)), "column 1: 99999999999999999999 is out of"));
  CHECK(mentions(complaint(row(1, 10)), "column 65: 10 is not in 0 to 9"));
  CHECK(mentions(complaint(std::string(2'000'000, '1')), "line 1: longer than"));
  CHECK(mentions(complaint(std::string("\x1f\x8b") + "nonsense"), "damaged"));
}

TEST_CASE("load_digits: a compressed file cut off anywhere is refused") {
  const TemporaryFolder folder;
  const std::string whole = folder.file("whole.csv.gz");
  const std::string cut = folder.file("cut.csv.gz");
  std::string contents;
  for (int i = 0; i < 40; ++i) contents += row(i % 17, i % 10);
  write_gzip(whole, contents);
  CHECK(load_digits(whole).size() == 40);
  const std::string bytes = read_file(whole);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    write_file(cut, bytes.substr(0, length));
    CHECK_THROWS_AS(load_digits(cut), DataError);
  }
}

TEST_CASE("load_digits: a changed bit in a compressed file is refused, or changed nothing") {
  const TemporaryFolder folder;
  const std::string path = folder.file("digits.csv.gz");
  write_gzip(path, row(3, 7) + row(2, 6));
  const std::vector<float> pixels = load_digits(path).inputs.to_vector<float>();
  const std::string bytes = read_file(path);
  std::size_t refused = 0;
  for (std::size_t i = 10; i < bytes.size(); ++i) {  // after gzip's header, whose time and system count for nothing
    CAPTURE(i);
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    write_file(path, damaged);
    std::vector<float> got;
    try {
      got = load_digits(path).inputs.to_vector<float>();
    } catch (const DataError&) {
      ++refused;
      continue;
    }
    CHECK(got == pixels);  // e.g. the code of a symbol that does not occur
  }
  CHECK(refused + 5 > bytes.size() - 10);
}

TEST_CASE("split: every example goes to one side, with its target") {
  const SplitExamples parts = split(numbered(101), 0.8, 3);
  CHECK(parts.first.size() == 81);
  CHECK(parts.second.size() == 20);
  std::multiset<std::int64_t> seen;
  for (const Examples* part : {&parts.first, &parts.second}) {
    const std::vector<float> inputs = part->inputs.to_vector<float>();
    const std::vector<std::int64_t> targets = part->targets.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < targets.size(); ++i) {
      CHECK(inputs[3 * i] == static_cast<float>(targets[i]));
      CHECK(inputs[3 * i + 2] == static_cast<float>(targets[i]));
      seen.insert(targets[i]);
    }
  }
  CHECK(seen.size() == 101);
  CHECK(*seen.rbegin() == 100);
  CHECK(std::set(seen.begin(), seen.end()).size() == 101);
}

TEST_CASE("split: is a function of the seed") {
  const auto first_of = [](std::uint64_t seed) {
    return split(numbered(50), 0.5, seed).first.targets.to_vector<std::int64_t>();
  };
  CHECK(first_of(1) == first_of(1));
  CHECK(first_of(1) != first_of(2));
}

TEST_CASE("split: neither side is empty, and nonsense is refused") {
  CHECK(split(numbered(2), 0.01, 1).first.size() == 1);
  CHECK(split(numbered(2), 0.99, 1).second.size() == 1);
  CHECK_THROWS_AS(split(numbered(1), 0.5, 1), Error);
  CHECK_THROWS_AS(split(numbered(5), 0.0, 1), Error);
  CHECK_THROWS_AS(split(numbered(5), 1.0, 1), Error);
  CHECK_THROWS_AS(split({numbered(5).inputs, numbered(4).targets}, 0.5, 1), ShapeError);
  CHECK_THROWS_AS(split({}, 0.5, 1), ShapeError);
}

TEST_SUITE_END();
