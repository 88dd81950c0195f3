// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/npz.h>
#include <tutti/exchange/safetensors.h>
#include <tutti/tests/command/launch_folder.h>
#include <tutti/tests/command/running_program.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

/// An array of that type whose bytes are all patterns that there are, NaNs among them.
Array patterns(DType dtype, const Shape& shape) {
  Array array = Array::empty(shape, dtype, cpu());
  auto* bytes = reinterpret_cast<unsigned char*>(array.raw_data());
  for (std::size_t i = 0; i < array.bytes(); ++i)
    bytes[i] = static_cast<unsigned char>(dtype == DType::boolean ? i % 2 : 37 * i + 11);
  return array;
}

void check_same(const NamedArrays& arrays, const NamedArrays& expected) {
  REQUIRE(arrays.size() == expected.size());
  for (const auto& [name, wanted] : expected) {
    CAPTURE(name);
    const Array given = arrays.at(name);
    CHECK(given.dtype() == wanted.dtype());
    CHECK(given.shape() == wanted.shape());
    CHECK((wanted.bytes() == 0 || std::memcmp(given.raw_data(), wanted.raw_data(), wanted.bytes()) == 0));
  }
}

struct Outcome {
  int status;
  std::string output, error;
};

Outcome convert(std::vector<std::string> words) {
  words.insert(words.begin(), {TUTTI_COMMAND, "convert"});
  RunningProgram program(words);
  const int status = program.end();
  return {status, program.output, program.error};
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

NamedArrays arrays_of_every_type() {
  NamedArrays arrays;
  for (const DType dtype : kAllDTypes)
    if (dtype != DType::bf16) arrays.emplace_back("layer." + std::string(to_string(dtype)), patterns(dtype, {3, 5}));
  arrays.emplace_back("step", patterns(DType::i64, {}));
  arrays.emplace_back("empty/\xc3\xa4", patterns(DType::f32, {0, 4}));
  return arrays;
}

}  // namespace

TEST_CASE("convert: there and back, bit by bit, in every type that both have") {
  const LaunchFolder folder;
  const std::string first = folder.path() / "a.safetensors";
  const std::string between = folder.path() / "b.npz";
  const std::string last = folder.path() / "c.safetensors";
  const NamedArrays arrays = arrays_of_every_type();
  write_safetensors(first, {.arrays = arrays, .metadata = {}});
  const Outcome there = convert({first, between});
  CHECK(there.error == "");
  CHECK(there.status == 0);
  CHECK(there.output.starts_with(between + ": 10 arrays, "));
  check_same(read_npz(between), arrays);
  CHECK(convert({between, last}).status == 0);
  check_same(read_safetensors(last).arrays, arrays);
  CHECK(bytes_of(first) == bytes_of(last));
}

TEST_CASE("convert: what .npz lacks is told, for each") {
  const LaunchFolder folder;
  const std::string from = folder.path() / "a.safetensors";
  const std::string to = folder.path() / "b.npz";
  const Array narrow = patterns(DType::bf16, {16, 16});
  write_safetensors(from,
                    {.arrays = {{"w", narrow}, {"b", patterns(DType::f16, {2})}}, .metadata = {{"format", "pt"}}});
  const Outcome done = convert({from, to});
  CHECK(done.status == 0);
  const std::vector<std::string> lines = lines_of(done.error);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "tutti convert: \"w\" is bf16, which NumPy lacks: it becomes f32, with the same values");
  CHECK(lines[1] == "tutti convert: the text \"format\" of its metadata is left out: .npz has none");
  const Array wide = read_npz(to).at("w");
  REQUIRE(wide.dtype() == DType::f32);
  const auto* bits = reinterpret_cast<const unsigned short*>(narrow.raw_data());
  for (int i = 0; i < 256; ++i) {
    unsigned value = 0;
    std::memcpy(&value, reinterpret_cast<const std::byte*>(wide.raw_data()) + 4 * i, sizeof value);
    if ((value & 0x7fffffffU) <= 0x7f800000U) CHECK(value == static_cast<unsigned>(bits[i]) << 16U);  // no NaN
  }
}

TEST_CASE("convert: a file that is there is replaced when it is asked for, and nothing is left behind") {
  const LaunchFolder folder;
  const std::string from = folder.path() / "a.safetensors";
  const std::string to = folder.path() / "b.npz";
  write_safetensors(from, {.arrays = {{"w", patterns(DType::f32, {4})}}, .metadata = {}});
  std::ofstream(to) << "mine";
  const Outcome refused = convert({from, to});
  CHECK(refused.status == 1);
  CHECK(contains(refused.error, to + " is there already: --force replaces it"));
  CHECK(bytes_of(to) == "mine");
  CHECK(convert({from, to, "--force"}).status == 0);
  CHECK(read_npz(to).size() == 1);
  const auto entries = std::filesystem::directory_iterator(folder.path());
  CHECK(std::distance(begin(entries), end(entries)) == 2);
}

TEST_CASE("convert: what cannot be done is one line, and writes nothing") {
  const LaunchFolder folder;
  const std::string to = folder.path() / "b.npz";
  const auto check = [&](const std::vector<std::string>& words, int status, const std::string& problem) {
    const Outcome done = convert(words);
    CHECK(done.status == status);
    CAPTURE(done.error);
    CHECK(contains(done.error, problem));
    CHECK(lines_of(done.error).size() == 1);
    CHECK(!std::filesystem::exists(to));
  };
  check({folder.path() / "none.safetensors", to}, 1, "none.safetensors");
  check({folder.path() / "a.txt", to}, 1, "a.txt: its name ends neither in .safetensors nor in .npz");
  check({folder.path() / "a.npz", to}, 1, "are of one format");
  const std::string header = R"({"x":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},)"
                             R"("y":{"dtype":"F8_E4M3","shape":[0],"data_offsets":[2,2]}})";
  const std::string odd = folder.path() / "odd.safetensors";
  const std::size_t length = header.size();
  std::ofstream(odd, std::ios::binary) << std::string(reinterpret_cast<const char*>(&length), 8) << header << "ab";
  check({odd, to}, 1, "of types that no array has here are \"x\", \"y\"; nothing is written");
  CHECK(convert({"a.npz"}).status == 2);
  CHECK(contains(convert({"--help"}).output, "Usage: tutti convert"));
}

TEST_SUITE_END();
