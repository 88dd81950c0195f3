// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/scope.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <string>
#include <thread>

namespace tutti {
namespace {

TEST_CASE("Scope: errors name where the thread is, and no other thread") {
  const Tensor a = spread({2, 3}, 1);
  const Tensor b = spread({4}, 2);
  const std::string text = "[add] shapes [2, 3] and [4] cannot be broadcast together; operands: f64 [2, 3], f64 [4]";
  CHECK_THROWS_WITH_AS(a + b, text.c_str(), ShapeError);
  const Scope outer("encoder");
  {
    const Scope inner("layer3");
    CHECK_THROWS_WITH_AS(a + b, (text + " (in encoder.layer3)").c_str(), ShapeError);
    CHECK_THROWS_WITH_AS(a & a, doctest::Contains("(in encoder.layer3)"), DTypeError);
    std::thread([&] { CHECK_THROWS_WITH_AS(a + b, text.c_str(), ShapeError); }).join();
  }
  CHECK_THROWS_WITH_AS(a + b, doctest::Contains("(in encoder)"), ShapeError);
}

TEST_CASE("Scope: errors name where the operands were made") {
  const auto made_in = [](const char* name, const Shape& shape) {
    const Scope scope(name);
    return exp(spread(shape, 1));
  };
  const Tensor a = made_in("encoder", {2, 3});
  const Tensor b = made_in("decoder", {4, 5});
  const char* origins = "operands: f64 [2, 3] made by exp in encoder, f64 [4, 5] made by exp in decoder";
  CHECK_THROWS_WITH_AS(a * b, doctest::Contains(origins), ShapeError);
  CHECK_THROWS_WITH_AS(matmul(a, b), doctest::Contains(origins), ShapeError);
  CHECK_THROWS_WITH_AS(concatenate({a, b}), doctest::Contains(origins), ShapeError);
  CHECK_THROWS_WITH_AS(linear(a, spread({2, 2}, 1)), doctest::Contains("f64 [2, 3] made by exp in encoder, f64 [2, 2]"),
                       ShapeError);
  const Scope scope("encoder");
  const Tensor parameter = spread({4}, 1);
  CHECK_THROWS_WITH_AS(a + parameter,
                       doctest::Contains("f64 [2, 3] made by exp in encoder, f64 [4] made in encoder (in encoder)"),
                       ShapeError);
}

}  // namespace
}  // namespace tutti
