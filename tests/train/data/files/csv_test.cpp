// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/tests/exchange/complaint.h>
#include <tutti/train/data/csv.h>

#include <cmath>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

Array parsed(const std::string& contents, const CsvOptions& options = {}, const CsvSelection& selection = {}) {
  const TemporaryFolder folder;
  write_file(folder.file("a.csv"), contents);
  return read_csv(folder.file("a.csv"), options, selection);
}

std::string complaint(const std::string& contents, const CsvSelection& selection = {}, const CsvOptions& options = {}) {
  return complaint_of([&](const std::string& path) { read_csv(path, options, selection); }, contents);
}

std::vector<std::vector<std::string>> records(const std::string& contents) {
  const TemporaryFolder folder;
  write_file(folder.file("a.csv"), contents);
  CsvReader reader(folder.file("a.csv"), {.header = false});
  std::vector<std::vector<std::string>> all;
  while (reader.next()) {
    auto& record = all.emplace_back();
    for (std::size_t i = 0; i < reader.width(); ++i) record.emplace_back(reader.field(i));
  }
  return all;
}

}  // namespace

TEST_CASE("csv: columns by name and number, in the order asked for, in any type") {
  const std::string file = "\xef\xbb\xbfid,width, \"height\"\r\n1,2.5,3\r\n-4, +5e1 ,6\r\n";
  const Array all = parsed(file);
  CHECK(all.shape() == Shape{2, 3});
  CHECK(all.dtype() == DType::f32);
  CHECK(all.to_vector<float>() == std::vector<float>{1, 2.5F, 3, -4, 50, 6});
  CHECK(parsed(file, {}, {.columns = {"width", 0}, .dtype = DType::f64}).to_vector<double>() ==
        std::vector<double>{2.5, 1, 50, -4});
  CHECK(parsed(file, {}, {.columns = {"id"}, .dtype = DType::i8}).to_vector<std::int8_t>() ==
        std::vector<std::int8_t>{1, -4});
  CHECK(parsed(file, {}, {.columns = {1}, .dtype = DType::bf16}).cast(DType::f32).to_vector<float>()[1] == 50);
  CHECK(parsed("0;1\n", {.delimiter = ';', .header = false}, {.dtype = DType::boolean}).to_vector<bool>() ==
        std::vector<bool>{false, true});
}

TEST_CASE("csv: missing fields are errors or what is said") {
  const CsvSelection nan{.missing = std::nan("")};
  CHECK(std::isnan(parsed("a,b\n1,\n", {}, nan).to_vector<float>()[1]));
  CHECK(parsed("a,b\n1, \n", {}, {.dtype = DType::i64, .missing = -1}).to_vector<std::int64_t>()[1] == -1);
  CHECK(mentions(complaint("a,b\n1,\n"), "line 2, column 2: \"\" is not a number"));
}

TEST_CASE("csv: inputs and targets") {
  const TemporaryFolder folder;
  write_file(folder.file("a.csv"), "x,y,label\n1,2,0\n3,4,1\n5,6,1\n");
  const Examples examples =
      read_csv_examples(folder.file("a.csv"), {.columns = {"x", "y"}}, {.columns = {"label"}, .dtype = DType::i64});
  CHECK(examples.inputs.shape() == Shape{3, 2});
  CHECK(examples.targets.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 1});
  CHECK(examples.targets.shape() == Shape{3});
  CHECK(read_csv_examples(folder.file("a.csv"), {.columns = {2}}, {.columns = {0, 1}}).targets.shape() == Shape{3, 2});
}

TEST_CASE("csv: an example is not taken for the header") {
  const std::string said = complaint("1,2,0\n3,4,1\n");
  CHECK(mentions(said, "line 1, column 1: the header has the number 1 for a name: set header to false in CsvOptions"));
  CHECK(mentions(complaint("5.1,3.5,setosa\n4.9,3,setosa\n", {.columns = {1}}), "line 1, column 2"));
  CHECK(mentions(complaint("a, +1e3 \n3,4\n"), "column 2: the header has the number +1e3"));
  CHECK(mentions(complaint("7\n"), "header to false"));
  CHECK(parsed("1,2\n", {.header = false}).shape() == Shape{1, 2});

  CHECK(parsed("name,2019\n7,8\n", {}, {.columns = {0}}).to_vector<float>() == std::vector<float>{7});
  CHECK(parsed("name,2019\n7,8\n", {}, {.columns = {"2019"}}).to_vector<float>() == std::vector<float>{8});
  CHECK(parsed("0,1\n7,8\n", {.numbers_as_names = true}).to_vector<float>() == std::vector<float>{7, 8});
  CHECK(parsed("nan,inf,1a,\n1,2,3,4\n").shape() == Shape{1, 4});

  const TemporaryFolder folder;
  write_file(folder.file("a.csv"), "1,2,0\n3,4,1\n");
  CHECK_THROWS_WITH_AS(read_csv_examples(folder.file("a.csv"), {.columns = {0, 1}}, {.columns = {2}}),
                       doctest::Contains("a.csv, line 1, column 1"), DataError);
  write_file(folder.file("b.csv"), "0,1,label\n3,4,1\n");
  CHECK(read_csv_examples(folder.file("b.csv"), {.columns = {0, 1}}, {.columns = {"label"}}).size() == 1);
}

TEST_CASE("csv: a file longer than allowed is refused") {
  const std::string text = "a\n" + std::string(2000, '1') + "\n";
  CHECK(mentions(complaint(text, {}, {.most_unpacked_bytes = 1000}), "holds more than 1000 bytes"));
  const TemporaryFolder folder;
  std::string rows = "a\n";
  for (int i = 0; i < 50'000; ++i) rows += "1\n";
  write_gzip(folder.file("a.csv.gz"), rows);
  CHECK(read_csv(folder.file("a.csv.gz"), {.most_unpacked_bytes = rows.size()}).length(0) == 50'000);
  CHECK_THROWS_WITH_AS(read_csv(folder.file("a.csv.gz"), {.most_unpacked_bytes = rows.size() - 1}),
                       doctest::Contains("raise most_unpacked_bytes"), DataError);
  CsvReader reader(folder.file("a.csv.gz"), {.most_unpacked_bytes = 50'000});
  CHECK_THROWS_AS(while (reader.next()){}, DataError);
}

TEST_CASE("csv: quotes as RFC 4180 has them") {
  using Records = std::vector<std::vector<std::string>>;
  CHECK(records("a,\"b,c\",\"say \"\"hi\"\"\"\n") == Records{{"a", "b,c", "say \"hi\""}});
  CHECK(records("\"two\nlines\",x\r\ny,z") == Records{{"two\nlines", "x"}, {"y", "z"}});
  CHECK(records("\"\",\n,\"\"\n") == Records{{"", ""}, {"", ""}});
  CHECK(records("5\" disk,b\n") == Records{{"5\" disk", "b"}});
  CHECK(records("").empty());
}

TEST_CASE("csv: errors name path, line and column") {
  CHECK(mentions(complaint(""), "lacks the line that names the columns"));
  CHECK(mentions(complaint("a,b\n"), "no examples"));
  CHECK(mentions(complaint("a,b\n1,2\n1\n"), "line 3: 1 columns, expected 2"));
  CHECK(mentions(complaint("a,b\n1,2,3\n"), "line 2: 3 columns, expected 2"));
  CHECK(mentions(complaint("a,b\n\n"), "line 2: 1 columns"));
  CHECK(mentions(complaint("1,2\n", {}, {.header = false, .width = 3}), "line 1: 2 columns, expected 3"));
  CHECK(mentions(complaint("a\n\"1\n2\n"), "line 2, column 1: the quote is not closed"));
  CHECK(mentions(complaint("a\n\"1\"2\n"), "line 2, column 1: text after a closing quote"));
  CHECK(mentions(complaint("a\n1\n1.5x\n"), "line 3, column 1: \"1.5x\" is not a number"));
  CHECK(mentions(complaint("a\n+-1\n"), "not a number"));
  CHECK(mentions(complaint("a\n1.5\n", {.dtype = DType::i32}), "not a whole number"));
  CHECK(mentions(complaint("a\n300\n", {.dtype = DType::u8}), "300 is out of the range of u8"));
  CHECK(mentions(complaint("a\n2\n", {.dtype = DType::boolean}), "out of the range of bool"));
  CHECK(mentions(complaint("a\n1e39\n"), "1e39 is out of the range of f32"));
  CHECK(mentions(complaint("a\n70000\n", {.dtype = DType::f16}), "out of the range of f16"));
  CHECK(mentions(complaint("a\n99999999999999999999\n", {.dtype = DType::i64}), "out of the range of i64"));
  CHECK(mentions(complaint("a,b\n1,2\n", {.columns = {"c"}}), "no column \"c\""));
  CHECK(mentions(complaint("a,a\n1,2\n", {.columns = {"a"}}), "several columns \"a\""));
  CHECK(mentions(complaint("a,b\n1,2\n", {.columns = {2}}), "no column 2: there are 2, from 0"));
  CHECK(mentions(complaint("1,2\n", {.columns = {"a"}}, {.header = false}), "it has no header"));
  CHECK_THROWS_AS(complaint("a\n1\n", {}, {.delimiter = '"'}), Error);
}

TEST_CASE("csv: a quote that is never closed does not swallow a long file") {
  std::string contents = "a\n\"";
  for (int i = 0; i < 200; ++i) contents += std::string(100'000, 'x') + "\n";
  CHECK(mentions(complaint(contents), "line 2: longer than 16777216 characters"));
}

TEST_SUITE_END();
