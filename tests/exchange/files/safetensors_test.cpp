// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/safetensors.h>

#include <tutti/backend/registry.h>
#include <tutti/exchange/memory/foreign_types.h>
#include <tutti/tests/exchange/complaint.h>
#include <tutti/tests/exchange/files/safetensors_bytes.h>
#include <tutti/tests/exchange/python.h>

#include <doctest/doctest.h>

#include <cstring>

using namespace tutti;
using namespace tutti::testing;

namespace {

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

std::string complaint(const std::string& contents) {
  const auto reading = [](bool map) {
    return [map](const std::string& path) { read_safetensors(path, {.map = map}); };
  };
  const std::string mapped = complaint_with_offset(reading(true), contents);
  CHECK(mapped.empty() == complaint_with_offset(reading(false), contents).empty());
  return mapped;
}

const Array& named(const TensorFile& file, const std::string& name) {
  for (const auto& [other, array] : file.arrays)
    if (other == name) return array;
  FAIL("no " << name);
  return file.arrays.front().second;
}

/// One array of each type, 0 1 2 ..., and shapes at the edge.
TensorFile samples() {
  TensorFile file;
  file.metadata = {{"format", "pt"}, {"ä\"", "\\\n"}};
  for (const DType dtype : kAllDTypes)
    file.arrays.emplace_back("all." + std::string(to_string(dtype)),
                             Array::arange(6, DType::i64, cpu()).cast(dtype).reshape({2, 3}));
  file.arrays.emplace_back("scalar", Array::full({}, 1e300, DType::f64, cpu()));
  file.arrays.emplace_back("empty", Array::zeros({0, 4}, DType::f32, cpu()));
  file.arrays.emplace_back("turned", Array::arange(6, DType::f32, cpu()).reshape({2, 3}).transpose());
  return file;
}

void check_samples(const TensorFile& read) {
  const TensorFile expected = samples();
  CHECK(read.arrays.size() == expected.arrays.size());
  for (const auto& [name, array] : expected.arrays) {
    CAPTURE(name);
    const Array& got = named(read, name);
    CHECK(got.shape() == array.shape());
    REQUIRE(got.dtype() == array.dtype());
    CHECK(got.cast(DType::f64).to_vector<double>() == array.cast(DType::f64).to_vector<double>());
  }
}

}  // namespace

TEST_CASE("safetensors: what was written is read, mapped and copied") {
  const TemporaryFolder folder;
  const std::string path = folder.file("samples");
  write_safetensors(path, samples());
  for (const bool map : {true, false}) {
    const TensorFile read = read_safetensors(path, {.device = cpu(1), .map = map});
    CHECK(read.metadata == samples().metadata);
    check_samples(read);
    CHECK(read.arrays.front().second.device() == cpu(1));
  }
}

TEST_CASE("safetensors: each array that is written is told") {
  const TemporaryFolder folder;
  std::uint64_t bytes = 0;
  std::uint64_t expected = 0;
  for (const auto& [name, array] : samples().arrays) expected += array.bytes();
  std::size_t arrays = 0;
  write_safetensors(folder.file("told"), samples(), {.written = [&](const Array& array) {
                      ++arrays;
                      bytes += array.bytes();
                    }});
  CHECK(arrays == samples().arrays.size());
  CHECK(bytes == expected);
}

TEST_CASE("safetensors: mapped arrays take no memory of the pool, outlive the file, and never write to it") {
  const TemporaryFolder folder;
  const std::string path = folder.file("file");
  write_safetensors(path, {{{"w", Array::arange(1000, DType::f32, cpu())}}, {}});
  const std::string before = read_file(path);
  const std::size_t in_use = memory_pool(cpu(7)).statistics().in_use;
  Array mapped = named(read_safetensors(path, {.device = cpu(7)}), "w");
  CHECK(memory_pool(cpu(7)).statistics().in_use == in_use);
  Array part = mapped.slice(0, 10, 12);
  part.fill(-1);
  CHECK(mapped.slice(0, 9, 13).to_vector<float>() == std::vector<float>{9, -1, -1, 12});
  CHECK(read_file(path) == before);
  std::filesystem::remove(path);
  mapped = Array();
  CHECK(part.to_vector<float>() == std::vector<float>{-1, -1});
}

TEST_CASE("safetensors: misaligned arrays are copied") {
  const TemporaryFolder folder;
  const std::string header = R"({"b":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]},)"
                             R"("w":{"dtype":"I32","shape":[1],"data_offsets":[1,5]}})";
  write_file(folder.file("file"), with_header(header, std::string("\1\7\0\0\0", 5)));
  const TensorFile read = read_safetensors(folder.file("file"));
  CHECK(named(read, "b").item<bool>());
  CHECK(named(read, "w").item<std::int32_t>() == 7);
}

TEST_CASE("safetensors: unknown types are an error that names tensor and type, or left out") {
  const TemporaryFolder folder;
  const std::string header = R"({"odd":{"dtype":"F4","shape":[4],"data_offsets":[0,2]},)"
                             R"("w":{"dtype":"I32","shape":[1],"data_offsets":[2,6]}})";
  const std::string contents = with_header(header, std::string("ab\7\0\0\0", 6));
  CHECK(mentions(complaint(contents), "\"odd\" at offset"));
  CHECK(mentions(complaint(contents), "unknown type \"F4\""));
  write_file(folder.file("file"), contents);
  std::vector<std::string> skipped;
  const TensorFile read = read_safetensors(folder.file("file"), {.skip_unknown_types = true, .skipped = &skipped});
  CHECK(skipped == std::vector<std::string>{"odd"});
  REQUIRE(read.arrays.size() == 1);
  CHECK(named(read, "w").item<std::int32_t>() == 7);
}

TEST_CASE("safetensors: hostile files are refused with the offset, and nothing large is allocated") {
  const std::string huge("\xff\xff\xff\xff\xff\xff\xff\x7f", 8);
  CHECK(mentions(complaint("1234567"), "truncated: its length ends at offset 7"));
  CHECK(mentions(complaint(huge + "{}"), "at offset 0, a header of 9223372036854775807 bytes"));
  CHECK(mentions(complaint(with_header("{}", "1")), "1 unexpected bytes at offset 10"));
  CHECK(mentions(complaint(with_header("{\"a\":")), "not JSON at offset 13"));
  CHECK(mentions(complaint(with_header("{\"\xff\":1}")), "not JSON at offset 10"));
  CHECK(mentions(complaint(with_header("[]")), "not a JSON object"));
  CHECK(mentions(complaint(with_header(R"({"w":1})")), "\"w\" at offset 9 is malformed: no dtype"));
  CHECK(mentions(complaint(with_header(R"({"w":{"dtype":7}})")), "its dtype is 7"));
  CHECK(mentions(complaint(with_header(R"({"a":)" + std::string(200'000, '['))), "nested too deeply"));
  CHECK(mentions(complaint(with_header(R"({"w":{},"w":{}})")), "\"w\" at offset 9 stands twice"));
  CHECK(mentions(complaint(with_header(R"({"w":{"dtype":"F32","dtype":"F64"}})")), "\"dtype\" at offset"));
  CHECK(mentions(complaint(with_header(R"({"__metadata__":{"a":1}})")), "malformed"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[1000000000000]", "[0,4000000000000]"))), "truncated: \"w\""));
  CHECK(mentions(complaint(with_header(tensor("F32", "[4611686018427387904,4]", "[0,0]"))), "impossible shape"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[0,18446744073709551615]", "[0,0]"))), "impossible shape"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[0,4611686018427387904,4]", "[0,0]"))), "impossible shape"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[-1]", "[0,0]"))), "whole number"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[1]", "[4,0]"))), "data_offsets 4 to 0"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[1]", "[0,8]"), "12345678")), "takes 4 bytes"));
  CHECK(mentions(complaint(with_header(tensor("F32", "[1]", "[4,8]"), "12345678")), "begins at data offset 4"));
  CHECK(mentions(complaint(with_header(tensor("X", "[1]", "[0,18446744073709551615]"))), "truncated: \"w\""));
  CHECK(mentions(complaint(with_header(tensor("BOOL", "[2]", "[0,2]"), "\1\2")), "2 at offset"));
  const std::string overlap = R"({"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},)"
                              R"("b":{"dtype":"I32","shape":[1],"data_offsets":[2,6]}})";
  CHECK(mentions(complaint(with_header(overlap, "123456")), "\"b\" at offset 62 begins at data offset 2, expected 4"));
}

TEST_CASE("safetensors: Python's library reads what we write" *
          doctest::skip(!python_has("numpy") || !python_has("safetensors"))) {
  const TemporaryFolder folder;
  write_safetensors(folder.file("samples"), samples());
  run_python(R"(
import sys, numpy as np
from safetensors import safe_open
with safe_open(sys.argv[1], 'numpy') as file:
  assert file.metadata() == {'format': 'pt', 'ä"': '\\\n'}, file.metadata()
  for name in sys.argv[2].split():
    if name != 'bf16':
      want = np.arange(6).reshape(2, 3).astype({'f': 'f', 'i': 'i', 'u': 'u', 'b': 'b'}[name[0]] + str(int(name[1:] or 0) // 8) if name != 'bool' else bool)
      got = file.get_tensor('all.' + name)
      assert got.dtype == want.dtype and np.array_equal(got, want), name
  assert file.get_tensor('scalar') == 1e300 and file.get_tensor('scalar').shape == ()
  assert file.get_tensor('empty').shape == (0, 4)
  assert np.array_equal(file.get_tensor('turned'), np.arange(6, dtype='f4').reshape(2, 3).T)
)",
             {folder.file("samples"), [] {
                std::string names;
                for (const DType dtype : kAllDTypes) names += std::string(to_string(dtype)) + " ";
                return names;
              }()});
}

TEST_CASE("safetensors: we read what Python's library writes" *
          doctest::skip(!python_has("numpy") || !python_has("safetensors"))) {
  const TemporaryFolder folder;
  run_python(R"(
import sys, numpy as np
from safetensors.numpy import save_file
save_file({'layers.0.weight': np.arange(6, dtype='f4').reshape(2, 3), 'd': np.array(1e300), 'mask': np.array([True, False]),
           'n': np.arange(3), 'm': np.arange(3, dtype='i4'), 'empty': np.zeros((0, 4), 'f4'), 'wide': np.zeros(1, 'u8')},
          sys.argv[1], {'format': 'np'})
)",
             {folder.file("file")});
  std::vector<std::string> skipped;
  const TensorFile read = read_safetensors(folder.file("file"), {.skip_unknown_types = true, .skipped = &skipped});
  CHECK(skipped == std::vector<std::string>{"wide"});
  CHECK(read.metadata.at("format") == "np");
  CHECK(named(read, "layers.0.weight").to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(named(read, "layers.0.weight").shape() == Shape{2, 3});
  CHECK(named(read, "d").item<double>() == 1e300);
  CHECK(named(read, "mask").to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(named(read, "n").to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2});
  CHECK(named(read, "m").to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 1, 2});
  CHECK(named(read, "empty").shape() == Shape{0, 4});
}
