// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/error_text.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;
using testing::error_of;

TEST_CASE("adaptive pooling: windows that are apart, that overlap and that repeat elements") {
  const Tensor x = constant({1, 2, 3, 4, 5, 6, 7}, {1, 1, 7});
  CHECK(adaptive_avg_pool1d(x, 1).to_vector<double>() == Values{4});
  CHECK(adaptive_avg_pool1d(x, 3).to_vector<double>() == Values{2, 4, 6});  // of three each
  CHECK(adaptive_avg_pool1d(x, 2).to_vector<double>() == Values{2.5, 5.5});
  CHECK(adaptive_avg_pool1d(x, 7).to_vector<double>() == x.to_vector<double>());
  CHECK(adaptive_max_pool1d(x, 3).to_vector<double>() == Values{3, 5, 7});
  const Tensor two = constant({1, 5}, {1, 1, 2});
  CHECK(adaptive_avg_pool1d(two, 3).to_vector<double>() == Values{1, 3, 5});
  CHECK(adaptive_max_pool1d(two, 5).to_vector<double>() == Values{1, 1, 5, 5, 5});
  const Tensor image = constant({1, 2, 3, 4, 5, 6}, {1, 1, 2, 3});
  CHECK(adaptive_avg_pool2d(image, {1, 2}).to_vector<double>() == Values{3, 4});
  CHECK(adaptive_max_pool2d(image, {1, 2}).to_vector<double>() == Values{5, 6});
}

TEST_CASE("adaptive pooling: infinities and NaN stay in their windows") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = constant({1, 2, 3, 4, inf, 6, std::nan("")}, {1, 1, 7});
  const auto means = adaptive_avg_pool1d(x, 4).to_vector<double>();
  CHECK(means[0] == 1.5);
  CHECK(means[1] == 3);
  CHECK(means[2] == inf);
  CHECK(std::isnan(means[3]));
  const auto largest = adaptive_max_pool1d(x, 4).to_vector<double>();
  CHECK(largest[1] == 4);
  CHECK(largest[2] == inf);
  CHECK(std::isnan(largest[3]));
}

TEST_CASE("adaptive pooling: gradients, of equal elements to the first, and of no images") {
  for (const std::array<std::int64_t, 2> size : {std::array<std::int64_t, 2>{3, 2}, {2, 5}, {4, 3}}) {
    const auto mean = [&](const Inputs& in) { return adaptive_avg_pool2d(square(in[0]), size); };
    const auto largest = [&](const Inputs& in) { return adaptive_max_pool2d(square(in[0]), size); };
    CHECK_NOTHROW(check_gradients(mean, {spread({2, 1, 4, 3}, 1)}));
    CHECK_NOTHROW(check_gradients(largest, {spread({2, 1, 4, 3}, 1, true)}));
    CHECK_NOTHROW(check_gradients(mean, {spread({0, 2, 4, 3}, 1)}));
    CHECK_NOTHROW(check_gradients(largest, {spread({0, 2, 4, 3}, 1, true)}));
  }
  const Tensor x = leaf({1, 7, 7, 7, 2, 7, 1, 1, 1}, {1, 1, 3, 3});
  backward(sum(adaptive_max_pool2d(x, {2, 2})));
  CHECK(x.grad().to_vector<double>() == Values{0, 2, 0, 1, 0, 1, 0, 0, 0});
}

TEST_CASE("adaptive pooling: what does not fit is named") {
  const Tensor x = spread({1, 2, 4, 4}, 1);
  CHECK(error_of([&] {
          adaptive_avg_pool1d(x, 2);
        }).starts_with("[adaptive_avg_pool1d] input [n, c, l] is needed, not [1, 2, 4, 4]; operands: f64"));
  CHECK(error_of([&] {
          adaptive_max_pool2d(x, {2, 0});
        }).starts_with("[adaptive_max_pool2d] there must be something to pool, and to pool to: size [2, 0]"));
  CHECK(error_of([&] {
          adaptive_avg_pool2d(spread({1, 2, 0, 4}, 1), {1, 1});
        }).find("input [1, 2, 0, 4]") != std::string::npos);
  CHECK(error_of([&] {
          adaptive_avg_pool2d(cast(x, DType::i64), {1, 1});
        }).starts_with("[adaptive_avg_pool2d] takes a floating type, not i64"));
}

}  // namespace
}  // namespace tutti
