// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/linear_algebra/bf16_tiles.h>
#include <tutti/backend/cpu/linear_algebra/gemm_blocks.h>
#include <tutti/backend/cpu/linear_algebra/pair_dots.h>
#include <tutti/tests/backend/cpu/matrices.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tutti {
namespace {

/// Sums of pairs, on processors that have no instruction for them too, and what the processor has.
#if defined(__x86_64__)
using Arithmetics = std::tuple<PairDots<ComputedDot>, PairDots<ProcessorDot>, TileDots>;
#else
using Arithmetics = std::tuple<PairDots<ComputedDot>, PairDots<ProcessorDot>>;
#endif

// Whoever may use tiles has the instruction for pairs, too.
template <class Arithmetic> bool runs_here() {
  bool runs = true;
  if constexpr (std::is_same_v<Arithmetic, TileDots>) runs = TileDots::is_there();
  if constexpr (std::is_same_v<Arithmetic, PairDots<ProcessorDot>>) runs = products_of_bf16() != Bf16Products::widened;
  if (!runs) MESSAGE("not run: the processor has no such instruction for bf16, or TUTTI_CPU_BF16 says another");
  return runs;
}

const BFloat16 kOutside(std::numeric_limits<float>::quiet_NaN());

TEST_CASE_TEMPLATE_DEFINE("pairs: products of all sizes and ways to lie in memory", Arithmetic, of_all_sizes) {
  if (!runs_here<Arithmetic>()) return;
  for (const Size& size : sizes())
    for (const bool a_transposed : {false, true})
      for (const bool b_transposed : {false, true})
        for (const std::int64_t gap : {0, 19}) {
          if (size.m * size.n * size.k == 0) continue;
          CAPTURE(size.m);
          CAPTURE(size.n);
          CAPTURE(size.k);
          CAPTURE(a_transposed);
          CAPTURE(b_transposed);
          Matrix<BFloat16> a(size.m, size.k, a_transposed, gap, kOutside);
          Matrix<BFloat16> b(size.k, size.n, b_transposed, gap, kOutside);
          Matrix<float> c(size.m, size.n, false, gap, 77);
          const std::vector<float> expected = plain_product(size, a, b, c, true);
          gemm_blocks::multiply_matrix<Arithmetic>(size.m, size.n, size.k, a.view(), b.view(), c.data().data(),
                                                   c.leading(), true);
          CHECK(c.data() == expected);
        }
}
TEST_CASE_TEMPLATE_APPLY(of_all_sizes, Arithmetics);

TEST_CASE_TEMPLATE_DEFINE("pairs: an operand that is written in parts", Arithmetic, by_parts) {
  if (!runs_here<Arithmetic>()) return;
  for (const Size& size : {Size{13, 40, 7}, Size{97, 33, 515}, Size{6, 1600, 258}}) {
    Matrix<BFloat16> a(size.m, size.k, false, 3, kOutside);
    Matrix<BFloat16> b(size.k, size.n, false, 0, kOutside);
    Matrix<float> c(size.m, size.n, false, 1, 77);
    const std::vector<float> expected = plain_product(size, a, b, c, false);
    const auto write = [&](const StripPart& part, std::int32_t* to) {
      std::fill_n(to, (part.steps + 1) / 2 * part.width, -1);
      write_part(
          part, [&](std::int64_t k, std::int64_t j) { return b.at(k, j); }, to);
    };
    gemm_blocks::multiply_parts<Arithmetic, BFloat16>(size.m, size.n, size.k, a.view(), write, c.data().data(),
                                                      c.leading(), false);
    CHECK(c.data() == expected);
  }
}
TEST_CASE_TEMPLATE_APPLY(by_parts, Arithmetics);

TEST_CASE_TEMPLATE_DEFINE("pairs: sums are as good as those of f32", Arithmetic, are_close) {
  if (!runs_here<Arithmetic>()) return;
  constexpr std::int64_t kSize = 61;
  constexpr std::int64_t kSteps = 777;
  std::mt19937 engine(5);
  std::vector<BFloat16> a(kSize * kSteps);
  std::vector<BFloat16> b(kSteps * kSize);
  for (std::vector<BFloat16>* each : {&a, &b})
    for (BFloat16& value : *each) value = BFloat16(static_cast<float>(engine()) * 0x1p-32F - 0.5F);
  std::vector<float> c(kSize * kSize);
  gemm_blocks::multiply_matrix<Arithmetic, BFloat16>(kSize, kSize, kSteps, {a.data(), kSteps}, {b.data(), kSize},
                                                     c.data(), kSize, false);
  double worst = 0;
  for (std::int64_t i = 0; i < kSize; ++i)
    for (std::int64_t j = 0; j < kSize; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < kSteps; ++k)
        sum += static_cast<double>(a[static_cast<std::size_t>(i * kSteps + k)]) *
               static_cast<double>(b[static_cast<std::size_t>(k * kSize + j)]);
      worst = std::max(worst, std::abs(sum - static_cast<double>(c[static_cast<std::size_t>(i * kSize + j)])));
    }
  CHECK(worst < 1e-5);
}
TEST_CASE_TEMPLATE_APPLY(are_close, Arithmetics);

#if defined(__x86_64__)
/// An element of a product as TileDots says it, for numbers whose products are no subnormal ones.
float element_by_tiles(std::int64_t steps, const BFloat16* row, const BFloat16* column) {
  float all = 0;
  for (std::int64_t begin = 0; begin < steps; begin += TileDots::kUnit * TileDots::kSteps) {
    float sums[2] = {};
    for (std::int64_t k = begin; k < std::min(steps, begin + TileDots::kUnit * TileDots::kSteps); ++k)
      sums[k % 2] = std::fma(static_cast<float>(row[k]), static_cast<float>(column[k]), sums[k % 2]);
    all += sums[0] + sums[1];
  }
  return all;
}

TEST_CASE("tiles: an element's bits are those of its row and column alone") {
  if (!runs_here<TileDots>()) return;
  std::mt19937 engine(6);
  for (const Size& size :
       {Size{5, 1, 33}, Size{17, 19, 45}, Size{33, 47, 777}, Size{100, 50, 300}, Size{5, 1600, 64}}) {
    std::vector<BFloat16> a(static_cast<std::size_t>(size.m * size.k));
    std::vector<BFloat16> b(static_cast<std::size_t>(size.n * size.k));  // transposed
    for (std::vector<BFloat16>* each : {&a, &b})
      for (BFloat16& value : *each) value = BFloat16(static_cast<float>(engine()) * 0x1p-32F - 0.5F);
    std::vector<float> c(static_cast<std::size_t>(size.m * size.n));
    gemm_blocks::multiply_matrix<TileDots, BFloat16>(size.m, size.n, size.k, {a.data(), size.k},
                                                     {b.data(), size.k, true}, c.data(), size.n, false);
    std::int64_t others = 0;
    for (std::int64_t i = 0; i < size.m; ++i)
      for (std::int64_t j = 0; j < size.n; ++j)
        others += static_cast<std::int64_t>(c[static_cast<std::size_t>(i * size.n + j)] !=
                                            element_by_tiles(size.k, &a[static_cast<std::size_t>(i * size.k)],
                                                             &b[static_cast<std::size_t>(j * size.k)]));
    CAPTURE(size.k);
    CHECK(others == 0);
  }
}
#endif

}  // namespace
}  // namespace tutti
