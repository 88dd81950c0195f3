// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/print.h>

#include <tutti/backend/error.h>
#include <tutti/exchange/npy.h>
#include <tutti/tests/exchange/python.h>
#include <tutti/tests/exchange/temporary_folder.h>

#include <fmt/format.h>

#include <doctest/doctest.h>

#include <limits>
#include <sstream>

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("print: elements, type, shape and device") {
  const Array array = Array::from(std::vector<float>{1, -2.5F, 0.1F, 0.01F}, {2, 2}, cpu());
  CHECK(to_string(array) == "[[ 1.   -2.5 ]\n [ 0.1   0.01]] f32 [2, 2] on cpu:0");
  CHECK(to_string(array, {.precision = 1, .separator = ", "}) == "[[ 1. , -2.5],\n [ 0.1,  0. ]] f32 [2, 2] on cpu:0");
  CHECK(to_string(Array::full({}, true, DType::boolean, cpu(1))) == "True bool [] on cpu:1");
  CHECK(to_string(Array::zeros({0, 3}, DType::i64, cpu())) == "[] i64 [0, 3] on cpu:0");
  CHECK(to_string(Array()) == "undefined");
  CHECK(to_string(Tensor()) == "undefined");
  std::ostringstream stream;
  stream << Array::arange(3, DType::i32, cpu()) << '\n' << Tensor(Array::arange(2, DType::f64, cpu()));
  CHECK(stream.str() == "[0 1 2] i32 [3] on cpu:0\n[0. 1.] f64 [2] on cpu:0");
}

TEST_CASE("print: of a summarised array only the corners are read") {
  const Array wide = Array::full({1}, 7, DType::f32, cpu()).broadcast_to({1'000'000, 1'000'000'000});
  CHECK(elements_text(wide, {.edge_items = 1}) == "[[7. ... 7.]\n ...\n [7. ... 7.]]");
}

TEST_CASE("print: just as NumPy" * doctest::skip(!python_has("numpy"))) {
  const TemporaryFolder folder;
  // The script saves arrays, and beside each what numpy.array2string makes of it.
  const std::string count = run_python(R"(
import itertools, sys, numpy as np
folder = sys.argv[1]
random = np.random.default_rng(0)
nan, inf = np.nan, np.inf
arrays = [np.array(x, t) for t in ('f4', 'f8') for x in (
  0, -0.0, 1, 0.1, nan, -inf, 1e-5, 123456789.0, 1e300 if t == 'f8' else 1e30,
  [1.0], [0.1, 0.25], [1, -1], [-0.0, 0.0], [nan, 1], [inf, -inf, nan], [-inf], [inf, 1.5], [nan, -inf, 1e-10],
  [1e-4, 1], [1e-4, 0.1001], [9.9e-5], [1000, 1], [1000.1, 1], [1e10, 1e-10], [1.5e-300 if t == 'f8' else 1.5e-30, nan],
  [1/3, 2/3, 100/3], [0.123456785, 0.123456775], [99999.999999999], [0.999999999], [0.5e-8, 1], [123456.789, 999.5],
  [2.0**-20, 1], [5e-324 if t == 'f8' else 1e-45], [1e100 if t == 'f8' else 1e38, 1e-100 if t == 'f8' else 1e-38],
  [[1, 2.5], [-3, 4]], [[[1e-7], [5]]], [[]], [[[[0.5]]]])]
arrays += [np.array([123456.7, 9e5], 'f8'), np.array([99999999.0, 1e8 - 0.5]), np.array([1e8])]
for t in ('f4', 'f8'):
  for shape in ((7,), (30,), (3, 50), (2, 3, 4), (2, 2, 2, 2), (1000,), (1001,), (10, 101), (101, 10), (7, 7, 30), (6, 200), (300, 6), (4, 4, 4, 4, 5)):
    a = random.standard_normal(shape).astype(t)
    arrays += [a, (a * 1e5).astype(t), np.exp(a * 9).astype(t), np.round(a, 2), np.where(a > 1, nan, a).astype(t), np.where(a > 1, -inf, np.exp(a * 9)).astype(t)]
for t in ('i4', 'i8'):
  arrays += [np.array(5, t), np.array([1, -10, 100], t), np.arange(1001, dtype=t), np.arange(-600, 600, dtype=t).reshape(2, 30, 20),
             np.array([np.iinfo(t).min, np.iinfo(t).max]), np.arange(60, dtype=t).reshape(3, 20) - 5]
arrays += [np.array(True), np.array(False), np.array([True, False]), np.zeros((3, 3), bool), np.arange(2000).reshape(2, 1000) % 3 == 0]
options = [dict(), dict(precision=3), dict(threshold=5, edgeitems=2), dict(max_line_width=30, separator=', '), dict(precision=0), dict(threshold=0, edgeitems=1)]
for i, a in enumerate(arrays):
  np.save('%s/%d' % (folder, i), a)
  for j, o in enumerate(options):
    open('%s/%d.%d' % (folder, i, j), 'w').write(np.array2string(a, **o))
print(len(arrays))
)",
                                       {folder.path().string()});
  const std::vector<PrintOptions> options = {{},
                                             {.precision = 3},
                                             {.threshold = 5, .edge_items = 2},
                                             {.line_width = 30, .separator = ", "},
                                             {.precision = 0},
                                             {.threshold = 0, .edge_items = 1}};
  for (int i = 0; i < std::stoi(count); ++i) {
    const Array array = read_npy(folder.file(std::to_string(i) + ".npy"));
    for (std::size_t j = 0; j < options.size(); ++j) {
      CAPTURE(to_string(array.shape()));
      CAPTURE(j);
      CHECK(elements_text(array, options[j]) == read_file(folder.file(fmt::format("{}.{}", i, j))));
    }
  }
}
