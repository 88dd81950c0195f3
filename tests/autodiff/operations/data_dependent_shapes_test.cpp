// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;
using Whole = std::vector<std::int64_t>;

TEST_CASE("masked_select: gradients of the mask and of what is broadcast") {
  const Tensor x = spread({3, 2}, 1);
  const Tensor mask = constant({1, 0, 0, 1, 1, 1}, {3, 2}) > 0;
  CHECK(masked_select(x, mask).shape() == Shape{4});
  check_gradients([&](const Inputs& in) { return square(masked_select(in[0], mask)); }, {x});
  check_gradients([&](const Inputs& in) { return square(masked_select(in[0], mask)); }, {spread({2}, 2)});
  CHECK_THROWS_WITH_AS(masked_select(x, x), doctest::Contains("[masked_select] the mask is f64"), DTypeError);
  CHECK_THROWS_WITH_AS(masked_select(x, mask.transpose()), doctest::Contains("[masked_select]"), ShapeError);
}

TEST_CASE("argwhere: positions of what is not 0") {
  const Tensor x = constant({0, 2, std::nan(""), 0, 0, -1}, {3, 2});
  CHECK(argwhere(x).to_vector<std::int64_t>() == Whole{0, 1, 1, 0, 2, 1});
  CHECK(argwhere(x.transpose()).to_vector<std::int64_t>() == Whole{0, 1, 1, 0, 1, 2});
  CHECK(argwhere(constant({3}, {})).shape() == Shape{1, 0});
  CHECK(argwhere(constant({0}, {})).shape() == Shape{0, 0});
  CHECK(argwhere(constant({}, {2, 0})).shape() == Shape{0, 2});
}

TEST_CASE("unique: NaN is one, and so are zeros of both signs") {
  const double nan = std::nan("");
  const Unique found = unique(constant({nan, 0.0, 3, -0.0, nan, 3}, {2, 3}));
  CHECK(found.values.to_vector<double>().size() == 3);
  CHECK(found.inverse.to_vector<std::int64_t>() == Whole{2, 0, 1, 0, 2, 1});
  CHECK(found.inverse.shape() == Shape{2, 3});
  CHECK(found.counts.to_vector<std::int64_t>() == Whole{2, 2, 2});
  CHECK_FALSE(unique(leaf({1, 2})).values.requires_grad());
}

TEST_CASE("bincount: lengths, weights, what is no count") {
  const Tensor numbers = index({3, 0, 3}, {3});
  CHECK(bincount(numbers).to_vector<std::int64_t>() == Whole{1, 0, 0, 2});
  check_gradients([&](const Inputs& in) { return square(bincount(numbers, in[0], 6)); }, {spread({3}, 1)});
  CHECK(bincount(index({}, {0}), 2).to_vector<std::int64_t>() == Whole{0, 0});
  CHECK(bincount(numbers, numbers > 1).to_vector<std::int64_t>() == Whole{0, 0, 0, 2});
  CHECK_THROWS_WITH_AS(bincount(index({1, -2}, {2})), doctest::Contains("[bincount] -2 is among the numbers"),
                       ShapeError);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_WITH_AS(bincount(index({1, most}, {2})), doctest::Contains("[bincount] 9223372036854775807 is among"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(bincount(index({1, 2}, {1, 2})), doctest::Contains("[bincount] numbers are [1, 2]"), ShapeError);
  CHECK_THROWS_WITH_AS(bincount(numbers, spread({2}, 1)),
                       doctest::Contains("[bincount] weights are [2] for numbers [3]"), ShapeError);
  CHECK_THROWS_WITH_AS(bincount(numbers, -1), doctest::Contains("[bincount] a length of -1"), ShapeError);
}

TEST_CASE("what is counted is read on the host, which a captured step refuses") {
  const Tensor x = constant({1, 0, 2}, {3});
  const Tensor numbers = cast(x, DType::i64);
  const Tensor mask = x > 0;
  const std::function<void()> calls[] = {[&] { masked_select(x, mask); }, [&] { argwhere(x); }, [&] { unique(x); },
                                         [&] { bincount(numbers); }, [&] { repeat_interleave(x, numbers, 0); }};
  for (const auto& call : calls) {
    Capture capture(test_device());
    const CaptureScope scope(capture);
    CHECK_THROWS_WITH_AS(call(), doctest::Contains("on the host: what depends on its value"), CaptureError);
  }
}

TEST_CASE("searchsorted: many values in long lines, against counting") {
  for (const std::int64_t length : {1, 2, 63, 64, 65, 1000}) {
    const Tensor line = arange(length, {.dtype = DType::i64, .device = test_device()}) * 2;
    const Tensor wanted = arange(-1, 2 * length + 1, {.dtype = DType::i64, .device = test_device()});
    const auto left = searchsorted(line, wanted).to_vector<std::int64_t>();
    const auto right = searchsorted(line, wanted, true).to_vector<std::int64_t>();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const std::int64_t value = static_cast<std::int64_t>(i) - 1;
      const std::int64_t below = value < 0 ? 0 : (value + 1) / 2;
      const std::int64_t up_to = value < 0 ? 0 : value / 2 + 1;
      wrong += left[i] == std::min(below, length) && right[i] == std::min(up_to, length) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
  const Tensor rows = constant({1, 2, 3, 4}, {2, 2});
  CHECK_THROWS_WITH_AS(searchsorted(rows, constant({1}, {1})), doctest::Contains("[searchsorted] values [1] in [2, 2]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(searchsorted(constant({1}, {}), rows), doctest::Contains("[searchsorted]"), ShapeError);
  CHECK(searchsorted(index({1, 3}, {2}), constant({1.5}, {})).item<std::int64_t>() == 1);  // both are promoted
}

TEST_CASE("median, quantile: the gradient goes to the elements that they are made of") {
  const Tensor x = spread({2, 3, 2}, 1);
  for (const Axes& axes : {Axes{}, Axes{1}, Axes{0, 2}}) {
    check_gradients([&](const Inputs& in) { return square(median(in[0], axes, true)); }, {x});
    check_gradients([&](const Inputs& in) { return square(quantile(in[0], 0.3, axes)); }, {x});
  }
  CHECK(median(constant({4, 1, 3, 2}, {4})).item<double>() == 2);
  CHECK(quantile(constant({4, 1, 3, 2}, {4}), 0.5).item<double>() == 2.5);
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(quantile(constant({infinity, 1, 2}, {3}), 0.5).item<double>() == 2);  // is not mixed with what is above
  const Tensor with_nan = leaf({4, std::nan(""), 3});
  const Tensor middle = median(with_nan);
  CHECK(std::isnan(middle.item<double>()));
  CHECK(std::isnan(quantile(with_nan, 0).item<double>()));
  backward(middle);
  CHECK(with_nan.grad().to_vector<double>() == Values{0, 1, 0});
  CHECK(median(index({3, 1}, {2})).dtype() == DType::i64);
  CHECK(quantile(index({3, 1}, {2}), 0.5).dtype() == DType::f32);
  CHECK_THROWS_WITH_AS(median(constant({}, {2, 0}), 1), doctest::Contains("[median] there is nothing to choose from"),
                       ShapeError);
  for (const double q : {-0.1, 1.5, std::nan("")})
    CHECK_THROWS_WITH_AS(quantile(x, q), doctest::Contains("[quantile] q is"), Error);
}

TEST_CASE("repeat_interleave: counts below 0, and those whose sum is too large, are refused by name") {
  const Tensor x = constant({1, 2, 3}, {3});
  CHECK_THROWS_WITH_AS(repeat_interleave(x, index({1, -2, 1}, {3}), 0), doctest::Contains("[repeat_interleave] -2"),
                       ShapeError);
  const std::int64_t third = 6148914691236517206;
  CHECK_THROWS_WITH_AS(repeat_interleave(x, index({third, third, third}, {3}), 0),
                       doctest::Contains("[repeat_interleave] the counts' sum"), ShapeError);
  CHECK_THROWS_WITH_AS(repeat_interleave(x, index({std::numeric_limits<std::int64_t>::max(), 0, 0}, {3}), 0),
                       doctest::Contains("[repeat_interleave] the counts' sum"), ShapeError);
}

TEST_CASE("quantile: infinities and the largest numbers") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double q : {0.25, 0.5, 0.75}) {
    CHECK(quantile(constant({-infinity, 1}, {2}), q).item<double>() == -infinity);
    CHECK(quantile(constant({1, infinity}, {2}), q).item<double>() == infinity);
    CHECK(quantile(constant({infinity, infinity}, {2}), q).item<double>() == infinity);
    CHECK(quantile(constant({-infinity, -infinity}, {2}), q).item<double>() == -infinity);
    CHECK(std::isnan(quantile(constant({-infinity, infinity}, {2}), q).item<double>()));
  }
  const double most = std::numeric_limits<double>::max();
  CHECK(quantile(constant({-most, most}, {2}), 0.5).item<double>() == 0);
  const Tensor x = leaf({-infinity, 1});
  backward(quantile(x, 0.25));
  CHECK(x.grad().to_vector<double>() == Values{0.75, 0.25});
  const Tensor equal = leaf({2, 2});
  backward(quantile(equal, 0.25));
  CHECK(equal.grad().to_vector<double>() == Values{0.75, 0.25});
}

}  // namespace
}  // namespace tutti
