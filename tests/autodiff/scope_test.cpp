// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/scope.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <thread>

namespace tutti {
namespace {

TEST_CASE("Scope: errors name where the thread is, and no other thread") {
  const Tensor a = spread({2, 3}, 1);
  const Tensor b = spread({4}, 2);
  CHECK_THROWS_WITH_AS(a + b, "[add] shapes [2, 3] and [4] cannot be broadcast together", ShapeError);
  const Scope outer("encoder");
  {
    const Scope inner("layer3");
    CHECK_THROWS_WITH_AS(a + b, "[add] shapes [2, 3] and [4] cannot be broadcast together (in encoder.layer3)",
                         ShapeError);
    CHECK_THROWS_WITH_AS(a & a, doctest::Contains("(in encoder.layer3)"), DTypeError);
    std::thread([&] {
      CHECK_THROWS_WITH_AS(a + b, "[add] shapes [2, 3] and [4] cannot be broadcast together", ShapeError);
    }).join();
  }
  CHECK_THROWS_WITH_AS(a + b, doctest::Contains("(in encoder)"), ShapeError);
}

TEST_CASE("Scope: errors of shapes name where the operands were made") {
  const auto made_in = [](const char* name, const Shape& shape) {
    const Scope scope(name);
    return exp(spread(shape, 1));
  };
  const Tensor a = made_in("encoder", {2, 3});
  const Tensor b = made_in("decoder", {4, 5});
  const char* origins = "; [2, 3] was made by exp in encoder; [4, 5] was made by exp in decoder";
  CHECK_THROWS_WITH_AS(a * b, doctest::Contains(origins), ShapeError);
  CHECK_THROWS_WITH_AS(matmul(a, b), doctest::Contains(origins), ShapeError);
  CHECK_THROWS_WITH_AS(concatenate({a, b}), doctest::Contains(origins), ShapeError);
  CHECK_THROWS_WITH_AS(linear(a, spread({2, 2}, 1)), doctest::Contains("; [2, 3] was made by exp in encoder"),
                       ShapeError);
  const Tensor image = made_in("images", {1, 2, 4, 4});
  CHECK_THROWS_WITH_AS(conv2d(image, spread({1, 3, 2, 2}, 1)),
                       doctest::Contains("; [1, 2, 4, 4] was made by exp in images"), ShapeError);
}

}  // namespace
}  // namespace tutti
