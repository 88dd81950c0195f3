// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/exchange/npy.h>
#include <tutti/tests/exchange/complaint.h>
#include <tutti/train/data/idx.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

using namespace std::string_literals;

std::string header(char type, const std::vector<std::uint32_t>& lengths) {
  std::string bytes = "\0\0"s + type + static_cast<char>(lengths.size());
  for (const std::uint32_t length : lengths)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(length >> shift & 0xffU);
  return bytes;
}

Array parsed(const std::string& contents) {
  const TemporaryFolder folder;
  write_file(folder.file("a.idx"), contents);
  return read_idx(folder.file("a.idx"));
}

std::string complaint(const std::string& contents) {
  return complaint_of([](const std::string& path) { read_idx(path); }, contents);
}

}  // namespace

TEST_CASE("idx: all types, any shape, big-endian") {
  const Array bytes = parsed(header(0x08, {2, 1, 3}) + "\x01\x02\x03\x04\x05\xff");
  CHECK(bytes.shape() == Shape{2, 1, 3});
  CHECK(bytes.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{1, 2, 3, 4, 5, 255});
  CHECK(parsed(header(0x09, {1}) + "\xff").to_vector<std::int8_t>() == std::vector<std::int8_t>{-1});
  CHECK(parsed(header(0x0b, {2}) + "\x01\x02\xff\xfe").to_vector<std::int32_t>() == std::vector<std::int32_t>{258, -2});
  CHECK(parsed(header(0x0c, {1}) + "\x80\x00\x00\x01"s).item<std::int64_t>() == -2147483647);
  CHECK(parsed(header(0x0d, {1}) + "\x3f\xc0\x00\x00"s).to_vector<float>() == std::vector<float>{1.5F});
  CHECK(parsed(header(0x0e, {1, 1}) + "\xc0\x04\x00\x00\x00\x00\x00\x00"s).to_vector<double>() ==
        std::vector<double>{-2.5});
  CHECK(parsed(header(0x08, {}) + "\x07").shape().empty());
  CHECK(parsed(header(0x0e, {3, 0})).shape() == Shape{3, 0});
}

TEST_CASE("idx: a compressed pair, as MNIST comes, longer than one block") {
  const TemporaryFolder folder;
  std::string images = header(0x08, {1500, 28, 28});
  std::string labels = header(0x08, {1500});
  for (int i = 0; i < 1500; ++i) {
    images += std::string(784, static_cast<char>(i % 251));
    labels += static_cast<char>(i % 10);
  }
  write_gzip(folder.file("images.gz"), images);
  write_gzip(folder.file("labels.gz"), labels);
  const Examples examples = read_idx_examples(folder.file("images.gz"), folder.file("labels.gz"));
  CHECK(examples.inputs.shape() == Shape{1500, 28, 28});
  CHECK(examples.inputs.to_vector<std::uint8_t>()[1499 * 784 + 5] == 1499 % 251);
  CHECK(examples.targets.to_vector<std::int64_t>()[1234] == 4);
  CHECK(read_idx(folder.file("images.gz"), {.most_unpacked_bytes = images.size()}).length(0) == 1500);
  CHECK_THROWS_WITH_AS(
      read_idx_examples(folder.file("images.gz"), folder.file("labels.gz"), {.most_unpacked_bytes = 2000}),
      doctest::Contains("images.gz holds more than 2000 bytes, unpacked"), DataError);

  write_file(folder.file("few"), header(0x08, {2}) + "\x01\x02");
  write_file(folder.file("reals"), header(0x0d, {1}) + "\x3f\xc0\x00\x00"s);
  CHECK_THROWS_WITH_AS(read_idx_examples(folder.file("images.gz"), folder.file("few")),
                       doctest::Contains("not equally many"), DataError);
  CHECK_THROWS_WITH_AS(read_idx_examples(folder.file("few"), folder.file("reals")), doctest::Contains("holds f32"),
                       DataError);
}

TEST_CASE("idx: a file cut off anywhere is refused, compressed or not") {
  const TemporaryFolder folder;
  const std::string path = folder.file("cut");
  const std::string whole = header(0x0b, {3, 2}) + "abcdefghijkl";
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK(mentions(complaint(whole.substr(0, length)), "ends at offset " + std::to_string(length)));
  write_gzip(path, whole);
  CHECK(read_idx(path).size() == 6);
  const std::string compressed = read_file(path);
  for (std::size_t length = 0; length < compressed.size(); ++length) {
    CAPTURE(length);
    write_file(path, compressed.substr(0, length));
    CHECK_THROWS_AS(read_idx(path), DataError);
  }
}

TEST_CASE("idx: malformed and hostile files") {
  CHECK(mentions(complaint("PK\x03\x04"), "does not begin with two zeros"));
  CHECK(mentions(complaint("\0\0\x0a\x01"s), "type 0x0a at offset 2 is unknown"));
  CHECK(mentions(complaint(header(0x08, {2}) + "abc"), "goes on after its last element, at offset 10"));
  CHECK(mentions(complaint(header(0x08, {0}) + "a"), "goes on"));
  const std::uint32_t huge = 0xffffffff;
  CHECK(mentions(complaint(header(0x0e, {huge, huge, huge})), "impossible shape"));
  CHECK(mentions(complaint(header(0x08, {huge, huge / 4})), "ends at offset"));  // nothing so large is allocated
  CHECK(mentions(complaint(header(0x08, {0, huge, huge, huge})), "impossible shape"));
  CHECK_THROWS_WITH_AS(read_idx("/nonexistent/file"), doctest::Contains("/nonexistent/file"), DataError);
  const TemporaryFolder folder;
  CHECK_THROWS_AS(read_idx(folder.path().string()), DataError);
}

TEST_CASE("npy: a pair of files, whose memory a data set shares") {
  const TemporaryFolder folder;
  write_npy(folder.file("x.npy"), Array::arange(6, DType::f32, cpu()).reshape({3, 2}));
  write_npy(folder.file("y.npy"), Array::arange(3, DType::i64, cpu()));
  const Examples examples = read_npy_examples(folder.file("x.npy"), folder.file("y.npy"));
  const std::vector<std::int64_t> chosen = {2, 0, 2};
  for (const auto& dataset : {make_dataset(examples), share_dataset(examples)}) {
    const Batch batch = dataset->batch(chosen, cpu());
    CHECK(batch.inputs.to_vector<float>() == std::vector<float>{4, 5, 0, 1, 4, 5});
    CHECK(batch.targets.to_vector<std::int64_t>() == chosen);
  }
  CHECK_THROWS_WITH_AS(read_npy_examples(folder.file("x.npy"), folder.file("none.npy")), doctest::Contains("none.npy"),
                       DataError);
  write_npy(folder.file("y.npy"), Array::arange(4, DType::i64, cpu()));
  CHECK_THROWS_AS(read_npy_examples(folder.file("x.npy"), folder.file("y.npy")), DataError);
}

TEST_SUITE_END();
