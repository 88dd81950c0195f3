// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

TEST_CASE("avg_pool2d: apart, overlapping, padded, and with rows left over") {
  const AvgPool2dGeometry geometries[] = {
      {},
      {.kernel = {3, 2}, .stride = {1, 1}},
      {.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 1}},
      {.kernel = {3, 3}, .stride = {2, 1}, .padding = {1, 0}, .count_include_pad = false},
  };
  for (const AvgPool2dGeometry& geometry : geometries)
    for (const Shape& shape : {Shape{2, 2, 5, 4}, Shape{0, 2, 4, 4}, Shape{1, 1, 4, 4}}) {
      CAPTURE(to_string(shape));
      const auto f = [&](const Inputs& in) { return avg_pool2d(square(in[0]), geometry); };
      CHECK_NOTHROW(check_gradients(f, {spread(shape, 1)}));
    }
}

TEST_CASE("avg_pool2d: padding counts, or not") {
  const Tensor x = constant({1, 2, 3, 4}, {1, 1, 2, 2});
  AvgPool2dGeometry geometry{.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 1}};
  CHECK(avg_pool2d(x, geometry).to_vector<double>() == Values{0.25, 0.5, 0.75, 1});
  geometry.count_include_pad = false;
  CHECK(avg_pool2d(x, geometry).to_vector<double>() == Values{1, 2, 3, 4});
}

TEST_CASE("avg_pool2d: a window larger than the image is named") {
  CHECK_THROWS_WITH_AS(avg_pool2d(spread({1, 1, 2, 2}, 1), {.kernel = {3, 3}}), doctest::Contains("[avg_pool2d]"),
                       ShapeError);
}

}  // namespace
}  // namespace tutti
