// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <tutti/backend/error.h>
#include <tutti/tests/exchange/complaint.h>
#include <tutti/tests/exchange/files/safetensors_bytes.h>
#include <tutti/tests/test_devices.h>
#include <tutti/train/checkpoints/tensor_file.h>

#include <cstring>

using namespace tutti;
using namespace tutti::testing;

namespace {

std::string complaint(const std::string& contents) {
  return complaint_of([](const std::string& path) { read_tensor_file(path); }, contents);
}

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"__metadata__":{"tutti.crc32":"00000000"},"w":{"dtype":")" + dtype + R"(","shape":)" + shape +
         R"(,"data_offsets":)" + offsets + "}}";
}

}  // namespace

TEST_CASE("tensor file: keeps arrays of every type and shape, and texts") {
  const TemporaryFolder folder;
  const std::string path = folder.file("tensors");
  TensorFile file;
  file.metadata = {{"format", "tutti"}, {"quote\"", "\\ä\n"}};
  file.arrays = {
      {"f32", Array::from(std::vector<float>{1.5F, -0.0F, 3e38F}, {3}, test_device())},
      {"empty", Array::zeros({0, 4}, DType::f64, test_device())},
      {"scalar", Array::full({}, 1e300, DType::f64, test_device())},
      {"i64", Array::arange(6, DType::i64, test_device()).reshape({2, 3}).transpose()},
      {"i32", Array::full({2}, -7, DType::i32, test_device())},
      {"bool", Array::full({3}, true, DType::boolean, test_device())},
      {"bf16", Array::full({3}, 1.5, DType::bf16, test_device())},
      {"f16", Array::full({5}, -0.25, DType::f16, test_device())},
      {"i8", Array::full({3}, -7, DType::i8, test_device())},
      {"u8", Array::full({1}, 200, DType::u8, test_device())},
  };
  write_tensor_file(path, file);
  const TensorFile read = read_tensor_file(path, test_device(1));
  CHECK(read.metadata == file.metadata);
  REQUIRE(read.arrays.size() == file.arrays.size());
  for (std::size_t i = 0; i < read.arrays.size(); ++i) {
    CAPTURE(file.arrays[i].first);
    CHECK(read.arrays[i].first == file.arrays[i].first);
    CHECK(read.arrays[i].second.shape() == file.arrays[i].second.shape());
    CHECK(read.arrays[i].second.dtype() == file.arrays[i].second.dtype());
    CHECK(read.arrays[i].second.device() == test_device(1));
  }
  CHECK(read.arrays[0].second.to_vector<float>() == std::vector<float>{1.5F, -0.0F, 3e38F});
  CHECK(read.arrays[2].second.item<double>() == 1e300);
  CHECK(read.arrays[3].second.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 3, 1, 4, 2, 5});
  CHECK(read.arrays[4].second.to_vector<std::int32_t>() == std::vector<std::int32_t>{-7, -7});
  CHECK(read.arrays[5].second.to_vector<bool>() == std::vector<bool>{true, true, true});
  for (std::size_t i = 6; i < read.arrays.size(); ++i)
    CHECK(read.arrays[i].second.cast(DType::f64).to_vector<double>() ==
          file.arrays[i].second.cast(DType::f64).to_vector<double>());
}

TEST_CASE("tensor file: the layout is safetensors'") {
  const TemporaryFolder folder;
  const std::string path = folder.file("tensors");
  write_tensor_file(path, {{{"w", Array::from(std::vector<float>{1, 2}, {2, 1}, test_device())}}, {}});
  const std::string bytes = read_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  CHECK(length % 8 == 0);
  CHECK(bytes.size() == 8 + length + 8);
  const std::string header = bytes.substr(8, length);
  CHECK(header.starts_with("{\"__metadata__\":{\"tutti.crc32\":\""));
  CHECK(mentions(header, R"("w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})"));
  float second = 0;
  std::memcpy(&second, bytes.data() + 8 + length + 4, sizeof second);
  CHECK(second == 2.0F);
}

TEST_CASE("tensor file: names that cannot be written are refused") {
  const TemporaryFolder folder;
  const Array one = Array::zeros({1}, DType::f32, test_device());
  const auto refused = [&](TensorFile file) {
    CHECK_THROWS_AS(write_tensor_file(folder.file("tensors"), file), DataError);
    CHECK(std::filesystem::is_empty(folder.path()));
  };
  refused({{{"w", one}, {"w", one}}, {}});
  refused({{{"__metadata__", one}}, {}});
  refused({{{"w", Array()}}, {}});
  refused({{{"\xff", one}}, {}});
  refused({{{"w", one}}, {{"tutti.crc32", "00000000"}}});
}

TEST_CASE("tensor file: hostile lengths, shapes and offsets are refused without trying") {
  const std::string huge("\xff\xff\xff\xff\xff\xff\xff\x7f", 8);
  CHECK(mentions(complaint(huge + "{}"), "at offset 0, a header of 9223372036854775807 bytes"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[1000000000000]", "[0,4000000000000]"))), "truncated"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[4611686018427387904,4]", "[0,0]"))), "impossible shape"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[18446744073709551615]", "[0,0]"))), "impossible shape"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[-1]", "[0,0]"))), "whole number"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[1.5]", "[0,4]"))), "whole number"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[1]", "[4,0]"), "1234")), "data_offsets 4 to 0"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[1]", "[0,8]"), "12345678")), "takes 4 bytes"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[1]", "[4,8]"), "12345678")), "begins at data offset 4"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[1]", "[0]"))), "not two numbers"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[1]", "[0,4]"), "12345")), "1 unexpected bytes at offset"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[1]", "[0,4]"), "123")), "truncated: \"w\""));
  CHECK(mentions(complaint(with_header(tensor("F32", "[1]", "[0,4]"), "1234")), "checksum"));
  CHECK(mentions(complaint(with_header(tensor("F8_E4M3", "[1]", "[0,1]"))), "unknown type \"F8_E4M3\""));
}

TEST_CASE("tensor file: headers that are not what they should be are refused") {
  CHECK(mentions(complaint(with_header("")), "not JSON"));
  CHECK(mentions(complaint(with_header("{\"a\":")), "not JSON at offset 13"));
  CHECK(mentions(complaint(with_header("[]")), "not a JSON object"));
  CHECK(mentions(complaint(with_header("{}")), "no tutti.crc32"));
  CHECK(mentions(complaint(with_header(R"({"w":1})")), "malformed"));
  CHECK(mentions(complaint(with_header(R"({"w":{"dtype":"F32"}})")), "malformed"));
  CHECK(mentions(complaint(with_header(R"({"__metadata__":{"tutti.crc32":1}})")), "malformed"));
  CHECK(mentions(complaint(with_header(R"({"__metadata__":{"tutti.crc32":"12"}})")), "tutti.crc32"));
  CHECK(mentions(complaint(with_header(R"({"__metadata__":7})")), "malformed"));
  CHECK(mentions(complaint(with_header(std::string(200'000, '['))), "nested too deeply"));
}

TEST_CASE("tensor file: what is no file is refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(read_tensor_file(folder.file("none")), doctest::Contains("No such file"), DataError);
  CHECK_THROWS_AS(read_tensor_file(folder.path().string()), DataError);
  const std::string pipe = folder.file("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(read_tensor_file(pipe), doctest::Contains("not a regular file"), DataError);
}
