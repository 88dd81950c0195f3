// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/train/data/gzip_file.h>

#include <filesystem>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("read_text: plain and compressed, of any length") {
  const TemporaryFolder folder;
  for (const std::size_t length : {0U, 1U, 65535U, 65536U, 65537U, 200'000U}) {
    const std::string text(length, 'x');
    write_file(folder.file("plain"), text);
    write_gzip(folder.file("packed"), text);
    CHECK(read_text(folder.file("plain")) == text);
    CHECK(read_text(folder.file("packed")) == text);
  }
  CHECK_THROWS_AS(read_text(folder.file("none")), DataError);
}

TEST_CASE("read_text: contents longer than allowed are refused, plain, compressed and without an end") {
  const TemporaryFolder folder;
  const std::string text(300'000, 'x');
  write_file(folder.file("plain"), text);
  write_gzip(folder.file("packed"), text);
  for (const std::string name : {"plain", "packed"}) {
    const std::string path = folder.file(name);
    CHECK(read_text(path, {.most_unpacked_bytes = text.size()}) == text);
    const auto complaint = "[read] " + path + " holds more than 299999 bytes";
    CHECK_THROWS_WITH_AS(read_text(path, {.most_unpacked_bytes = text.size() - 1}),
                         doctest::Contains(complaint.c_str()), DataError);
    CHECK_THROWS_WITH_AS(read_text(path, {.most_unpacked_bytes = 9}), doctest::Contains("raise most_unpacked_bytes"),
                         DataError);
  }
  CHECK_THROWS_WITH_AS(read_text("/dev/zero", {.most_unpacked_bytes = 1U << 20U}), doctest::Contains("/dev/zero"),
                       DataError);
}

TEST_CASE("gzip: without a word, contents may have 1 GiB or a hundred times the file") {
  GzipFile zeros("/dev/zero");
  std::vector<char> block(std::size_t{1} << 20U);
  for (int i = 0; i < 1024; ++i) REQUIRE(zeros.read(block.data(), block.size()) == block.size());
  CHECK_THROWS_WITH_AS(zeros.read(block.data(), 1), doctest::Contains("/dev/zero holds more than 1073741824 bytes"),
                       DataError);
  const TemporaryFolder folder;
  write_file(folder.file("long"), "");
  std::filesystem::resize_file(folder.file("long"), 20'000'000);  // sparse
  CHECK(most_unpacked_bytes(folder.file("long")) == 2'000'000'000);
}

TEST_SUITE_END();
