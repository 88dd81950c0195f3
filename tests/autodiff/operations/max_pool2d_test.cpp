// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

TEST_CASE("max_pool2d: apart, overlapping, padded, and with rows left over") {
  const Pool2dGeometry geometries[] = {
      {},
      {.kernel = {3, 2}, .stride = {1, 1}, .padding = {0, 0}},
      {.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 1}},
      {.kernel = {3, 3}, .stride = {2, 1}, .padding = {1, 0}},
  };
  for (const Pool2dGeometry& geometry : geometries)
    for (const Shape& shape : {Shape{2, 2, 5, 4}, Shape{0, 2, 4, 4}, Shape{1, 1, 4, 4}}) {
      CAPTURE(to_string(shape));
      const auto f = [&](const Inputs& in) { return max_pool2d(in[0], geometry); };
      CHECK_NOTHROW(check_gradients(f, {spread(shape, 1)}));
      CHECK_NOTHROW(gradgradcheck([&](const Inputs& in) { return max_pool2d(square(in[0]), geometry); },
                                  {spread(shape, 2, true)}));
    }
}

TEST_CASE("max_pool2d: a maximum of two windows collects from both") {
  const Tensor x = leaf({1, 2, 3, 4, 9, 5, 6, 7, 8}, {1, 1, 3, 3});
  backward(sum(max_pool2d(x, {.kernel = {2, 2}, .stride = {1, 1}, .padding = {0, 0}})));
  CHECK(x.grad().to_vector<double>() == Values{0, 0, 0, 0, 4, 0, 0, 0, 0});
}

TEST_CASE("max_pool2d: a window larger than the image is named") {
  CHECK_THROWS_WITH_AS(max_pool2d(spread({1, 1, 2, 2}, 1), {.kernel = {3, 3}, .stride = {1, 1}, .padding = {0, 0}}),
                       doctest::Contains("[max_pool2d]"), ShapeError);
}

}  // namespace
}  // namespace tutti
