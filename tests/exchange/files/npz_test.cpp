// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/npz.h>

#include <tutti/backend/registry.h>
#include <tutti/exchange/files/utf8.h>
#include <tutti/tests/exchange/complaint.h>
#include <tutti/tests/exchange/python.h>

#include <doctest/doctest.h>

#include <cstring>

using namespace tutti;
using namespace tutti::testing;

namespace {

NamedArrays samples() {
  return {{"weight", Array::arange(300, DType::f32, cpu()).reshape({3, 100})},
          {"größe", Array::full({}, 7, DType::i64, cpu())},
          {"empty", Array::zeros({0, 2}, DType::f64, cpu())},
          {"mask", Array::from(std::vector<bool>{true, false}, {2}, cpu())},
          {"zeros", Array::zeros({20000}, DType::f32, cpu())}};
}

void check_samples(const NamedArrays& arrays) {
  const NamedArrays expected = samples();
  REQUIRE(arrays.size() == expected.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    CHECK(arrays[i].first == expected[i].first);
    CHECK(arrays[i].second.shape() == expected[i].second.shape());
    CHECK(arrays[i].second.dtype() == expected[i].second.dtype());
    CHECK(arrays[i].second.cast(DType::f64).to_vector<double>() ==
          expected[i].second.cast(DType::f64).to_vector<double>());
  }
}

std::string archive(const NamedArrays& arrays, bool deflate) {
  const TemporaryFolder folder;
  write_npz(folder.file("file.npz"), arrays, {.deflate = deflate});
  return read_file(folder.file("file.npz"));
}

std::string complaint(const std::string& contents) {
  return complaint_with_offset([](const std::string& path) { read_npz(path); }, contents);
}

/// `contents` with `value` at the place `offset` behind the first (last) `mark`.
template <class T>
std::string with(std::string contents, const std::string& mark, std::size_t offset, T value, bool last = false) {
  const std::size_t at = (last ? contents.rfind(mark) : contents.find(mark)) + offset;
  REQUIRE(at + sizeof value <= contents.size());
  std::memcpy(&contents[at], &value, sizeof value);
  return contents;
}

const std::string kLocal = "PK\3\4", kEntry = "PK\1\2", kEnd = "PK\5\6";

}  // namespace

TEST_CASE("npz: what was written is read, stored and deflated, mapped and copied") {
  const TemporaryFolder folder;
  for (const bool deflate : {false, true}) {
    const std::string path = folder.file("file.npz");
    write_npz(path, samples(), {.deflate = deflate});
    CHECK((read_file(path).size() < 10000) == deflate);
    check_samples(read_npz(path, {.map = false}));
    check_samples(read_npz(path));
  }
  write_npz(folder.file("none"), {});
  CHECK(read_npz(folder.file("none")).empty());
}

TEST_CASE("npz: each array that is written is told") {
  const TemporaryFolder folder;
  std::vector<Shape> shapes;
  write_npz(folder.file("told"), samples(), {.written = [&](const Array& array) { shapes.push_back(array.shape()); }});
  std::vector<Shape> expected;
  for (const auto& [name, array] : samples()) expected.push_back(array.shape());
  CHECK(shapes == expected);
}

TEST_CASE("named arrays: found by name, or an error that names what is like it") {
  NamedArrays arrays{{"hidden.weight", Array::arange(3, DType::f32, cpu())},
                     {"hidden.bias", Array::arange(2, DType::f32, cpu())},
                     {"step", Array::arange(1, DType::i64, cpu())}};
  CHECK(arrays.at("hidden.bias").size() == 2);
  CHECK(arrays.at(2).first == "step");
  CHECK(arrays.contains("step"));
  CHECK_FALSE(arrays.contains("steps"));
  CHECK(arrays.find("nothing") == arrays.end());
  const auto check_refused = [&](const char* name, const char* told) {
    CHECK_THROWS_WITH_AS(arrays.at(name), doctest::Contains(told), DataError);
  };
  check_refused("hidden.weigth", "[arrays] no array is called \"hidden.weigth\": like it are \"hidden.weight\"");
  check_refused("bias", "like it are \"hidden.bias\"");
  check_refused("model.hidden.bias", "like it are \"hidden.bias\"");
  check_refused("x", "there are \"hidden.weight\", \"hidden.bias\", \"step\"");
  check_refused("", "there are \"hidden.weight\"");
  CHECK_THROWS_WITH_AS(NamedArrays().at("x"), doctest::Contains("there are none at all"), DataError);
  for (int i = 0; i < 9; ++i) arrays.emplace_back("layer." + std::to_string(i), Array());
  check_refused("layer.x", "\"layer.0\", \"layer.1\", \"layer.2\", \"layer.3\", \"layer.4\" and 4 more");
}

TEST_CASE("npz: our stored members lie aligned and are mapped") {
  const TemporaryFolder folder;
  write_npz(folder.file("file.npz"), samples());
  const std::size_t in_use = memory_pool(cpu(9)).statistics().in_use;
  const NamedArrays arrays = read_npz(folder.file("file.npz"), {.device = cpu(9)});
  CHECK(memory_pool(cpu(9)).statistics().in_use == in_use);
  CHECK(reinterpret_cast<std::uintptr_t>(arrays[0].second.raw_data()) % 64 == 0);
}

TEST_CASE("npz: damaged and hostile archives are refused with the offset") {
  const std::string stored = archive({{"w", Array::arange(4, DType::f32, cpu())}}, false);
  const std::string packed = archive({{"w", Array::zeros({4000}, DType::f32, cpu())}}, true);
  CHECK(complaint(stored).empty());
  CHECK(complaint(packed).empty());
  CHECK(mentions(complaint(""), "no directory before offset 0"));
  CHECK(mentions(complaint(std::string(100'000, 'x')), "no directory before offset 100000"));
  CHECK(mentions(complaint(stored.substr(0, stored.size() - 1)), "no zip archive, or truncated"));
  CHECK(mentions(complaint(with(stored, "NUMPY", 130, 'x')), "its CRC is"));
  CHECK(mentions(complaint(with(stored, kEntry, 16, 1)), "its CRC is"));
  CHECK(mentions(complaint(with(packed, kEntry, 16, 1)), "its CRC is"));
  CHECK(mentions(complaint(with(stored, kEntry, 8, std::uint16_t{1})), "is encrypted"));
  CHECK(mentions(complaint(with(stored, kEntry, 10, std::uint16_t{12})), "unknown way, 12"));
  CHECK(mentions(complaint(with(stored, kEntry, 24, 1000)), "cannot be 1000 bytes"));
  CHECK(mentions(complaint(with(packed, kEntry, 24, 2'000'000'000)), "cannot be 2000000000 bytes"));
  CHECK(mentions(complaint(with(packed, kEntry, 24, 16000)), "is damaged"));
  CHECK(mentions(complaint(with(packed, kEntry, 24, 17000)), "is damaged"));
  CHECK(mentions(complaint(with(stored, kEntry, 42, 1)), "has no header"));
  CHECK(mentions(complaint(with(stored, kEntry, 42, 1'000'000)), "30 bytes at offset 1000000"));
  CHECK(mentions(complaint(with(stored, kEntry, 46, '\xff')), "not UTF-8"));
  CHECK(mentions(complaint(with(stored, kEntry, 46, 'v')), "another name"));
  CHECK(mentions(complaint(with(with(stored, kEntry, 50, 'x'), kLocal, 34, 'x')), "is no .npy file"));
  CHECK(mentions(complaint(with(stored, kLocal, 28, std::uint16_t{0xffff})), "reaches beyond"));
  CHECK(mentions(complaint(with(stored, kEnd, 10, std::uint16_t{2})), "2 members in a directory"));
  CHECK(mentions(complaint(with(stored, kEnd, 12, 1'000'000)), "does not end before"));
  CHECK(mentions(complaint(with(stored, kEnd, 16, -1)), "no zip64 locator"));
  CHECK(mentions(complaint(with(stored, kEnd, 10, std::uint16_t{0})), "unexpected bytes in the directory"));
}

TEST_CASE("npz: members may neither share bytes nor names") {
  const NamedArrays two = {{"a", Array::arange(4, DType::f32, cpu())}, {"b", Array::arange(4, DType::f32, cpu())}};
  const std::string stored = archive(two, false);
  const std::string same_name = with(with(stored, kEntry, 46, 'a', true), kLocal, 30, 'a', true);
  CHECK(mentions(complaint(same_name), "\"a.npy\" stands twice"));
  const std::size_t second = stored.rfind(kLocal);
  std::string inside = with(stored, kEntry, 20, static_cast<std::uint32_t>(second));
  inside = with(inside, kEntry, 24, static_cast<std::uint32_t>(second));
  CHECK(mentions(complaint(inside), "\"a.npy\""));
  CHECK(mentions(complaint(inside), "reaches beyond"));
}

TEST_CASE("npz: an archive that would unpack to too much is refused") {
  const TemporaryFolder folder;
  write_npz(folder.file("bomb"), {{"w", Array::zeros({100'000}, DType::f32, cpu())}}, {.deflate = true});
  CHECK(read_file(folder.file("bomb")).size() < 2000);
  CHECK_THROWS_WITH_AS(
      read_npz(folder.file("bomb"), {.most_unpacked_bytes = 100'000}),
      doctest::Contains("unpacks to 400128 bytes up to and with \"w.npy\" at offset 0, at most 100000 are allowed"),
      DataError);
  CHECK(read_npz(folder.file("bomb")).size() == 1);
}

TEST_CASE("npz: names that cannot be written are refused") {
  const TemporaryFolder folder;
  const Array one = Array::zeros({1}, DType::f32, cpu());
  for (const NamedArrays& wrong :
       {NamedArrays{{"w", one}, {"w", one}}, NamedArrays{{"\xff", one}}, NamedArrays{{"w", Array()}}})
    CHECK_THROWS_AS(write_npz(folder.file("file"), wrong), DataError);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("npz: UTF-8 is what RFC 3629 says it is") {
  for (const char* good : {"", "a", "ä", "€", "😀", "\xf4\x8f\xbf\xbf"}) CHECK(detail::is_utf8(good));
  for (const char* bad : {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff",
                          "\xe2\x82", "\xf0\x9f\x98", "\xc3("})
    CHECK_FALSE(detail::is_utf8(bad));
}

TEST_CASE("npz: NumPy reads what we write" * doctest::skip(!python_has("numpy"))) {
  const TemporaryFolder folder;
  write_npz(folder.file("stored"), samples());
  write_npz(folder.file("deflated"), samples(), {.deflate = true});
  run_python(R"(
import sys, zipfile, numpy as np
for path in sys.argv[1:]:
  assert zipfile.ZipFile(path).testzip() is None
  with np.load(path) as file:
    assert file.files == ['weight', 'größe', 'empty', 'mask', 'zeros'], file.files
    assert np.array_equal(file['weight'], np.arange(300, dtype='f4').reshape(3, 100))
    assert file['größe'] == 7 and file['größe'].dtype == np.int64
    assert file['empty'].shape == (0, 2)
    assert file['mask'].tolist() == [True, False]
    assert file['zeros'].shape == (20000,) and not file['zeros'].any()
)",
             {folder.file("stored"), folder.file("deflated")});
}

TEST_CASE("npz: we read what NumPy writes, zip64 and archives with comments too" *
          doctest::skip(!python_has("numpy"))) {
  const TemporaryFolder folder;
  run_python(R"(
import sys, zipfile, numpy as np
arrays = {'weight': np.arange(300, dtype='f4').reshape(3, 100), 'größe': np.array(7), 'empty': np.zeros((0, 2)),
          'mask': np.array([True, False]), 'zeros': np.zeros(20000, 'f4')}
np.savez(sys.argv[1] + '/stored', **arrays)
np.savez_compressed(sys.argv[1] + '/deflated', **arrays)
with zipfile.ZipFile(sys.argv[1] + '/stored.npz', 'a') as file: file.comment = b'PK\5\6 a comment'
zipfile.ZIP64_LIMIT = 0
zipfile.ZIP_FILECOUNT_LIMIT = 0
np.savez(sys.argv[1] + '/large', **arrays)
)",
             {folder.path().string()});
  for (const std::string name : {"stored.npz", "deflated.npz", "large.npz"})
    for (const bool map : {true, false}) {
      CAPTURE(name);
      check_samples(read_npz(folder.file(name), {.map = map}));
    }
  CHECK(read_file(folder.file("large.npz")).find("PK\6\6") != std::string::npos);
}
