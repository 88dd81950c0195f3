// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/npy.h>

#include <tutti/backend/registry.h>
#include <tutti/exchange/memory/foreign_types.h>
#include <tutti/tests/exchange/complaint.h>
#include <tutti/tests/exchange/python.h>

#include <doctest/doctest.h>

using namespace tutti;
using namespace tutti::testing;

namespace {

std::string npy(const std::string& dictionary, const std::string& data = "", char major = 1) {
  std::string text = "\x93NUMPY";
  text += major;
  text += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) text += static_cast<char>(dictionary.size() >> (8 * i) & 0xffU);
  return text + dictionary + data;
}

std::string header(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
}

std::string complaint(const std::string& contents) {
  return complaint_with_offset([](const std::string& path) { read_npy(path); }, contents);
}

std::vector<double> values(const Array& array) { return array.cast(DType::f64).to_vector<double>(); }

Array read(const std::string& contents) {
  const TemporaryFolder folder;
  write_file(folder.file("file.npy"), contents);
  return read_npy(folder.file("file.npy"), {.map = false});
}

}  // namespace

TEST_CASE("npy: what cannot be opened or written is named as it was asked for, without an offset") {
  const TemporaryFolder folder;
  const std::string path = folder.file("missing") + "/x.npy";
  const std::string reading = "[file] cannot open " + path + ": No such file or directory";
  CHECK_THROWS_WITH_AS(read_npy(path), reading.c_str(), DataError);
  const std::string writing = "[file] cannot create " + path + ": No such file or directory";
  CHECK_THROWS_WITH_AS(write_npy(path, Array::zeros({2}, DType::f32, cpu())), writing.c_str(), DataError);
}

TEST_CASE("npy: what was written is read, mapped and copied") {
  const TemporaryFolder folder;
  const std::string path = folder.file("file.npy");
  for (const DType dtype : kAllDTypes) {
    if (foreign_type(dtype).numpy == 0) continue;
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{7}, Shape{2, 3, 4}, Shape{3, 0, 2}}) {
      const Array array = Array::arange(element_count(shape), DType::i64, cpu()).cast(dtype).reshape(shape);
      write_npy(path, array);
      for (const bool map : {false, true}) {
        const Array got = read_npy(path, {.device = cpu(1), .map = map});
        CHECK(got.dtype() == dtype);
        CHECK(got.shape() == shape);
        CHECK(got.device() == cpu(1));
        CHECK(values(got) == values(array));
      }
    }
  }
  write_npy(path, Array::arange(6, DType::i32, cpu()).reshape({2, 3}).transpose());
  CHECK(values(read_npy(path)) == std::vector<double>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("npy: a mapped array takes no memory of the pool and never writes to the file") {
  const TemporaryFolder folder;
  const std::string path = folder.file("file.npy");
  write_npy(path, Array::arange(1000, DType::f64, cpu()));
  const std::string before = read_file(path);
  const std::size_t in_use = memory_pool(cpu(8)).statistics().in_use;
  Array mapped = read_npy(path, {.device = cpu(8)});
  CHECK(memory_pool(cpu(8)).statistics().in_use == in_use);
  mapped.fill(1);
  CHECK(mapped.slice(0, 999, 1000).item<double>() == 1);
  CHECK(read_file(path) == before);
}

TEST_CASE("npy: byte orders, Fortran order and what others write in headers") {
  CHECK(values(read(npy(header("<i4", "(2,)"), std::string("\1\0\0\0\2\0\0\0", 8)))) == std::vector<double>{1, 2});
  CHECK(values(read(npy(header(">i4", "(2,)"), std::string("\0\0\0\1\0\0\0\2", 8)))) == std::vector<double>{1, 2});
  CHECK(values(read(npy(header("i4", "(1L,)"), std::string("\1\0\0\0", 4), 2))) == std::vector<double>{1});
  const std::string reordered = "{\"shape\": (2, 3), 'descr':'|b1','fortran_order':True}";
  const Array turned = read(npy(reordered, std::string("\0\1\0\0\1\1", 6), 3));
  CHECK(turned.shape() == Shape{2, 3});
  CHECK(values(turned) == std::vector<double>{0, 0, 1, 1, 0, 1});
}

TEST_CASE("npy: hostile files are refused with the offset") {
  CHECK(mentions(complaint(""), "magic is missing at offset 0"));
  CHECK(mentions(complaint("\x93NUMPY\1"), "truncated at offset 6"));
  CHECK(mentions(complaint(npy("{}", "", 9)), "version 9 is unknown"));
  CHECK(mentions(complaint(npy("{}").substr(0, 11)), "a header of 2 bytes at offset 8"));
  CHECK(mentions(complaint(std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12)), "a header of 4294967295 bytes"));
  CHECK(mentions(complaint(npy("{}")), "lacks descr"));
  CHECK(mentions(complaint(npy("")), "'{' expected at offset 10"));
  CHECK(mentions(complaint(npy("{'descr': '<f4'")), "'}' expected"));
  CHECK(mentions(complaint(npy("{'descr: 1}")), "a string expected"));
  CHECK(mentions(complaint(npy("{'other': 1}")), "unknown key \"other\""));
  CHECK(mentions(complaint(npy("{'descr': '<f4', 'descr': '<f4'}")), "\"descr\" stands twice"));
  CHECK(mentions(complaint(npy("{'fortran_order': maybe}")), "neither True nor False"));
  CHECK(mentions(complaint(npy(header("|O", "(1,)"))), "Python objects are refused"));
  CHECK(mentions(complaint(npy("{'descr': [('a', '<f4')]}")), "structured types"));
  CHECK(mentions(complaint(npy(header("<c8", "(1,)"))), "the type \"<c8\" is unknown"));
  CHECK(mentions(complaint(npy(header("<f4x", "(1,)"))), "the type \"<f4x\" is unknown"));
  CHECK(mentions(complaint(npy(header("<f4", "(-1,)"))), "a length of an axis expected"));
  CHECK(mentions(complaint(npy(header("<f4", "(1.5,)"))), "')' expected"));
  CHECK(mentions(complaint(npy(header("<f4", "(99999999999999999999,)"))), "a length of an axis expected"));
  CHECK(complaint(npy(header("<f4", "(0, 1099511627776, 4)"))).empty());
  CHECK(mentions(complaint(npy(header("<f4", "(0, 4611686018427387904, 4)"))), "impossible shape"));  // as to NumPy
  CHECK(mentions(complaint(npy(header("<f4", "(4611686018427387904, 4)"))), "impossible shape"));
  CHECK(mentions(complaint(npy(header("<f4", "(1000000000000,)"))), "takes 4000000000000 bytes"));
  CHECK(mentions(complaint(npy(header("<f4", "(1,)"), "12345")), "takes 4 bytes from offset"));
  CHECK(mentions(complaint(npy(header("|b1", "(2,)"), "\1\2")), "is no boolean"));
}

TEST_CASE("npy: undefined arrays are not written") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(write_npy(folder.file("file.npy"), Array()), Error);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("npy: NumPy reads what we write" * doctest::skip(!python_has("numpy"))) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  for (const DType dtype : kAllDTypes) {
    if (foreign_type(dtype).numpy == 0) continue;
    paths.push_back(folder.file(std::string(to_string(dtype))));
    write_npy(paths.back(), Array::arange(6, DType::i64, cpu()).cast(dtype).reshape({2, 3}).transpose());
  }
  write_npy(folder.file("scalar"), Array::full({}, 1e300, DType::f64, cpu()));
  paths.push_back(folder.file("scalar"));
  run_python(R"(
import os, sys, numpy as np
names = {'f32': 'f4', 'f64': 'f8', 'f16': 'f2', 'i32': 'i4', 'i64': 'i8', 'i8': 'i1', 'u8': 'u1', 'bool': '?'}
for path in sys.argv[1:-1]:
  got, want = np.load(path), np.arange(6).reshape(2, 3).T.astype(names[os.path.basename(path)])
  assert got.dtype == want.dtype and np.array_equal(got, want), path
  assert isinstance(np.load(path, mmap_mode='r'), np.memmap)
scalar = np.load(sys.argv[-1])
assert scalar.shape == () and scalar == 1e300
)",
             paths);
}

TEST_CASE("npy: we read what NumPy writes" * doctest::skip(!python_has("numpy"))) {
  const TemporaryFolder folder;
  run_python(R"(
import sys, numpy as np
from numpy.lib import format
array = np.arange(24).reshape(2, 3, 4)
def save(name, array, version=None):
  with open(sys.argv[1] + '/' + name, 'wb') as file: format.write_array(file, array, version)
for order, letter in (('<', 'l'), ('>', 'b')):
  for kind in ('f4', 'f8', 'i4', 'i8'):
    save(letter + kind, array.astype(order + kind))
    save('fortran' + letter + kind, np.asfortranarray(array.astype(order + kind)))
for version in ((1, 0), (2, 0), (3, 0)): save('version%d' % version[0], array, version)
save('bool', array % 2 == 0)
save('scalar', np.array(2.5))
save('empty', np.zeros((3, 0)))
np.save(sys.argv[1] + '/objects', np.array([{}]), allow_pickle=True)
)",
             {folder.path().string()});
  std::vector<double> expected;
  for (int i = 0; i < 24; ++i) expected.push_back(i);
  for (const std::string name : {"lf4", "lf8", "li4", "li8", "bf4", "bf8", "bi4", "bi8", "version1", "version2"})
    for (const bool map : {true, false}) {
      CAPTURE(name);
      const Array array = read_npy(folder.file(name), {.map = map});
      CHECK(array.shape() == Shape{2, 3, 4});
      CHECK(values(array) == expected);
      if (name[0] != 'v') CHECK(values(read_npy(folder.file("fortran" + name), {.map = map})) == expected);
    }
  CHECK(values(read_npy(folder.file("version3"))) == expected);
  CHECK(read_npy(folder.file("bool")).dtype() == DType::boolean);
  CHECK(values(read_npy(folder.file("bool")))[2] == 1);
  CHECK(read_npy(folder.file("scalar")).item<double>() == 2.5);
  CHECK(read_npy(folder.file("empty")).shape() == Shape{3, 0});
  CHECK_THROWS_WITH_AS(read_npy(folder.file("objects.npy")), doctest::Contains("Python objects are refused"),
                       DataError);
}
