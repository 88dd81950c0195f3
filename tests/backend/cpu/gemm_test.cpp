// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/linear_algebra/gemm.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cpu/matrices.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace tutti {
namespace {

template <class S> void check_product(const Size& size, bool a_transposed, bool b_transposed, std::int64_t gap) {
  using T = ComputedIn<S>;
  const S outside(std::numeric_limits<T>::quiet_NaN());
  Matrix<S> a(size.m, size.k, a_transposed, gap, outside);
  Matrix<S> b(size.k, size.n, b_transposed, gap, outside);
  for (const bool accumulate : {false, true}) {
    Matrix<T> c(size.m, size.n, false, gap, T(77));
    const std::vector<T> expected = plain_product(size, a, b, c, accumulate);
    gemm<S>(size.m, size.n, size.k, a.view(), b.view(), c.data().data(), c.leading(), accumulate);
    CHECK(c.data() == expected);
  }
}

template <class T> void check_all_sizes() {
  for (const Size& size : sizes())
    for (const bool a_transposed : {false, true})
      for (const bool b_transposed : {false, true}) {
        CAPTURE(size.m);
        CAPTURE(size.n);
        CAPTURE(size.k);
        CAPTURE(a_transposed);
        CAPTURE(b_transposed);
        check_product<T>(size, a_transposed, b_transposed, 0);
        check_product<T>(size, a_transposed, b_transposed, 19);  // more than a vector
      }
}

/// Numbers in [-0.5, 0.5), whose sums are rounded.
std::vector<float> noise(std::int64_t count) {
  static std::mt19937 engine(5);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(engine()) * 0x1p-32F - 0.5F;
  return values;
}

TEST_CASE_TEMPLATE("gemm: products of all sizes and ways to lie in memory", S, float, double, BFloat16, Float16) {
  check_all_sizes<S>();
}

TEST_CASE("gemm: of more than four rows an element has the same bits whatever else there is, and however it lies") {
  constexpr std::int64_t kRows = 101;
  constexpr std::int64_t kColumns = 77;
  constexpr std::int64_t kSteps = 700;
  const std::vector<float> a = noise(kRows * kSteps);
  const std::vector<float> b = noise(kSteps * kColumns);
  std::vector<float> whole(kRows * kColumns);
  gemm<float>(kRows, kColumns, kSteps, {a.data(), kSteps}, {b.data(), kColumns}, whole.data(), kColumns);

  std::vector<float> a_turned(a.size());
  for (std::int64_t i = 0; i < kRows; ++i)
    for (std::int64_t k = 0; k < kSteps; ++k)
      a_turned[static_cast<std::size_t>(k * kRows + i)] = a[static_cast<std::size_t>(i * kSteps + k)];
  std::vector<float> b_turned(b.size());
  for (std::int64_t k = 0; k < kSteps; ++k)
    for (std::int64_t j = 0; j < kColumns; ++j)
      b_turned[static_cast<std::size_t>(j * kSteps + k)] = b[static_cast<std::size_t>(k * kColumns + j)];

  for (const std::int64_t row : {0, 13, 90})
    for (const std::int64_t rows : {5, 6, 11})
      for (const std::int64_t column : {0, 3, 50})
        for (const std::int64_t columns : {2, 9, 27})
          for (const bool a_transposed : {false, true})
            for (const bool b_transposed : {false, true}) {
              const MatrixView<float> lhs =
                  a_transposed ? MatrixView<float>{a_turned.data(), kRows, true} : MatrixView<float>{a.data(), kSteps};
              const MatrixView<float> rhs = b_transposed ? MatrixView<float>{b_turned.data(), kSteps, true}
                                                         : MatrixView<float>{b.data(), kColumns};
              std::vector<float> part(static_cast<std::size_t>(rows * columns));
              gemm<float>(rows, columns, kSteps, lhs.rows_from(row), rhs.columns_from(column), part.data(), columns);
              for (std::int64_t i = 0; i < rows; ++i)
                CHECK(std::memcmp(&part[static_cast<std::size_t>(i * columns)],
                                  &whole[static_cast<std::size_t>((row + i) * kColumns + column)],
                                  static_cast<std::size_t>(columns) * sizeof(float)) == 0);
            }
}

TEST_CASE_TEMPLATE("gemm: an operand that is written in parts gives the bits of one that lies as a matrix", S, float,
                   double, BFloat16, Float16) {
  using T = ComputedIn<S>;
  for (const Size& size : {Size{1, 40, 300}, Size{3, 9, 64}, Size{4, 77, 515}, Size{5, 33, 257}, Size{98, 1600, 70}}) {
    const auto rounded = [](std::int64_t count) {
      std::vector<S> values;
      for (const float value : noise(count)) values.push_back(S(value));
      return values;
    };
    const std::vector<S> a = rounded(size.m * size.k);
    const std::vector<S> b = rounded(size.k * size.n);
    std::vector<T> expected(static_cast<std::size_t>(size.m * size.n));
    std::vector<T> found = expected;
    gemm<S>(size.m, size.n, size.k, {a.data(), size.k}, {b.data(), size.n}, expected.data(), size.n);
    const auto at = [&](std::int64_t k, std::int64_t j) { return b[static_cast<std::size_t>(k * size.n + j)]; };
    const auto write = [&](const StripPart& part, auto* to) { write_part(part, at, to); };
    gemm_by_parts<S>(size.m, size.n, size.k, {a.data(), size.k}, write, found.data(), size.n);
    CHECK(std::memcmp(found.data(), expected.data(), found.size() * sizeof(T)) == 0);
  }
}

TEST_CASE("gemm: NaN and infinity stay in their row and column") {
  for (const std::int64_t m : {1, 3, 6, 13}) {
    std::vector<float> a(static_cast<std::size_t>(m * 5), 1);
    std::vector<float> b(5 * 9, 2);
    b[3] = std::numeric_limits<float>::infinity();
    a.back() = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> c(static_cast<std::size_t>(m * 9), -1);
    gemm<float>(m, 9, 5, {a.data(), 5}, {b.data(), 9}, c.data(), 9);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < 9; ++j) {
        const float got = c[static_cast<std::size_t>(i * 9 + j)];
        if (i + 1 == m)
          CHECK(std::isnan(got));
        else
          CHECK(got == (j == 3 ? std::numeric_limits<float>::infinity() : 10.0F));
      }
  }
}

TEST_CASE("gemm: a matmul has the same bits on 1, 2, 3 and 5 threads") {
  struct Case {
    Shape lhs;
    Shape rhs;
  };
  for (const Case& each : {Case{{16, 20000}, {20000, 16}}, Case{{2, 70000}, {70000, 32}}, Case{{300, 300}, {300, 300}},
                           Case{{4000, 1}, {1, 40}}, Case{{3, 700, 64}, {3, 64, 31}}, Case{{1, 2048}, {2048, 2100}}}) {
    Shape turned = each.rhs;
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    const Array lhs = Array::from(noise(element_count(each.lhs)), each.lhs, cpu());
    for (const Array& rhs : {Array::from(noise(element_count(each.rhs)), each.rhs, cpu()),
                             Array::from(noise(element_count(each.rhs)), turned, cpu()).transpose()}) {
      std::vector<float> expected;
      for (const int threads : {1, 2, 3, 5}) {
        set_cpu_threads(cpu(), threads);
        const std::vector<float> found = matmul(lhs, rhs).to_vector<float>();
        if (threads == 1) expected = found;
        CHECK(std::memcmp(found.data(), expected.data(), expected.size() * sizeof(float)) == 0);
      }
    }
  }
  set_cpu_threads(cpu(), 1);
}

TEST_CASE("gemm: linear's pieces add the bias of their columns") {
  const Array x = Array::from(noise(16 * 1024), {16, 1024}, cpu());
  const Array weight = Array::from(noise(1500 * 1024), {1500, 1024}, cpu());
  const Array bias = Array::from(noise(1500), {1500}, cpu());
  const std::vector<float> product = matmul(x, weight.transpose()).to_vector<float>();
  const std::vector<float> added = bias.to_vector<float>();
  for (const int threads : {1, 4}) {
    set_cpu_threads(cpu(), threads);
    const std::vector<float> found = linear(x, weight, bias, LinearActivation::relu).to_vector<float>();
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == std::max(product[i] + added[i % 1500], 0.0F));
  }
  set_cpu_threads(cpu(), 1);
}

TEST_CASE_TEMPLATE("gemm: a packed matrix gives the bits of gemm, of parts of it too", S, float, double, BFloat16) {
  using T = ComputedIn<S>;
  PackedMatrix<S> packed;  // one for all: it is packed anew
  for (const Size& size : {Size{7, 9, 513}, Size{5, 1540, 3}, Size{98, 70, 258}, Size{6, 33, 600}, Size{13, 24, 1}})
    for (const bool transposed : {false, true}) {
      const S outside(std::numeric_limits<T>::quiet_NaN());
      Matrix<S> a(size.m, size.k, !transposed, 3, outside);
      Matrix<S> b(size.k, size.n, transposed, 5, outside);
      for (std::int64_t step = 0; step < size.k; ++step) b.at(step, step % size.n) = S(T(0.7));
      packed.pack(size.k, size.n, b.view());
      CHECK(packed.columns_through(size.n) == size.n);
      CHECK(packed.columns_through(0) == 0);
      for (const std::int64_t wanted : {std::int64_t{1}, size.n / 2, size.n}) {
        const std::int64_t columns = packed.columns_through(wanted);
        CHECK(columns >= wanted);
        for (const bool accumulate : {false, true}) {
          Matrix<T> expected(size.m, columns, false, 2, T(77));
          Matrix<T> found = expected;
          gemm<S>(size.m, columns, size.k, a.view(), b.view(), expected.data().data(), expected.leading(), accumulate);
          packed.multiply(size.m, columns, size.k, a.view(), found.data().data(), found.leading(), accumulate);
          CHECK(found.data() == expected.data());
        }
      }
      // Further steps of nothing change nothing: those that are left out are these.
      const std::int64_t steps = size.k / 2 + 1;
      Matrix<S> zeros = a;
      for (std::int64_t i = 0; i < size.m; ++i)
        for (std::int64_t step = steps; step < size.k; ++step) zeros.at(i, step) = S(T(0));
      Matrix<T> expected(size.m, size.n, false, 2, T(77));
      Matrix<T> found = expected;
      gemm<S>(size.m, size.n, size.k, zeros.view(), b.view(), expected.data().data(), expected.leading());
      packed.multiply(size.m, size.n, steps, a.view(), found.data().data(), found.leading());
      CHECK(found.data() == expected.data());
    }
}

/// Multiplies when its thread ends.
struct Late {
  static constexpr std::int64_t kColumns = 80;
  std::vector<float>* result;
  ~Late() {
    const std::vector<float> ones(8 * kColumns, 1);  // more than are read where they lie
    gemm<float>(8, kColumns, 8, {ones.data(), 8}, {ones.data(), kColumns}, result->data(), kColumns);
  }
};

TEST_CASE_TEMPLATE("gemm: few columns, which are read where they lie, have the bits of packed ones", T, float, double) {
  const auto turned = [](const std::vector<T>& values, std::int64_t columns) {
    std::vector<T> result;
    for (std::int64_t j = 0; j < columns; ++j)
      for (auto i = static_cast<std::size_t>(j); i < values.size(); i += static_cast<std::size_t>(columns))
        result.push_back(values[i]);
    return result;
  };
  for (const Size& size :
       {Size{5, 2, 3}, Size{8, 8, 8}, Size{13, 10, 700}, Size{96, 32, 257}, Size{64, 16, 16}, Size{7, 5, 21}}) {
    CAPTURE(size.m);
    const auto values = [](std::int64_t count) {
      const std::vector<float> drawn = noise(count);
      return std::vector<T>(drawn.begin(), drawn.end());
    };
    const std::vector<T> a = values(size.m * size.k);
    const std::vector<T> b = values(size.k * size.n);
    const std::vector<T> a_turned = turned(a, size.k);
    const std::vector<T> b_turned = turned(b, size.n);
    const std::vector<T> start = values(size.m * size.n);
    PackedMatrix<T> packed;
    packed.pack(size.k, size.n, {b.data(), size.n});
    for (const bool accumulate : {false, true})
      for (const bool turn_a : {false, true})
        for (const bool turn_b : {false, true}) {
          const MatrixView<T> lhs =
              turn_a ? MatrixView<T>{a_turned.data(), size.m, true} : MatrixView<T>{a.data(), size.k};
          const MatrixView<T> rhs =
              turn_b ? MatrixView<T>{b_turned.data(), size.k, true} : MatrixView<T>{b.data(), size.n};
          std::vector<T> expected = start;
          packed.multiply(size.m, size.n, size.k, lhs, expected.data(), size.n, accumulate);
          std::vector<T> found = start;
          gemm<T>(size.m, size.n, size.k, lhs, rhs, found.data(), size.n, accumulate);
          CHECK(std::memcmp(found.data(), expected.data(), found.size() * sizeof(T)) == 0);
        }
  }
}

TEST_CASE("gemm: works in destructors of the thread's objects, those that end after its memory, too") {
  constexpr auto kResults = static_cast<std::size_t>(8 * Late::kColumns);
  std::vector<float> first(kResults);
  std::vector<float> last(kResults);
  std::thread([&] {
    thread_local Late late{&last};
    const std::vector<float> twos(kResults, 2);
    gemm<float>(8, Late::kColumns, 8, {twos.data(), 8}, {twos.data(), Late::kColumns}, first.data(), Late::kColumns);
    CHECK(late.result == &last);
  }).join();
  CHECK(first == std::vector<float>(kResults, 32));
  CHECK(last == std::vector<float>(kResults, 8));
}

}  // namespace
}  // namespace tutti
