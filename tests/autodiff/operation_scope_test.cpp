// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operation_scope.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tutti {
namespace {

std::string error_of(const auto& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST_CASE("OperationScope: operations that are composed of others name themselves, and say which one failed") {
  const Tensor x = constant({1, 2, 3, 4, 5, 6}, {2, 3});
  const std::string of_x = " axis 7 is out of range for rank 2; operands: f64 [2, 3]";
  CHECK(error_of([&] { mean(x, 7); }) == "[mean] sum:" + of_x);
  CHECK(error_of([&] { stddev(x, 7); }) == "[stddev] sum:" + of_x);
  CHECK(error_of([&] { logsumexp(x, 7); }) == "[logsumexp] max:" + of_x);
  CHECK(error_of([&] { sort(x, 7); }) == "[sort] argsort:" + of_x);
  CHECK(error_of([&] { sum(x, 7); }) == "[sum]" + of_x);
  CHECK(error_of([&] { x.mean(7); }) == "[mean] sum:" + of_x);
}

TEST_CASE("OperationScope: dtypes, literals, operands that are undefined, and many of them") {
  const Tensor x = constant({1, 2}, {2});
  const Tensor whole(Array::from(std::vector<std::int64_t>{1, 2, 3}, {3}, test_device()));
  CHECK(error_of([&] { x& whole; }) == "[bitwise_and] takes integers or bool, not f64; operands: f64 [2], i64 [3]");
  CHECK(error_of([&] { whole & 0.5; }) ==
        "[bitwise_and] takes integers or bool, not f32; operands: i64 [3], the literal 0.5");
  CHECK(error_of([&] { x + Tensor(); }) == "[add] an operand is undefined; operands: f64 [2]");
  CHECK(error_of([&] { gather(x, 0, Tensor()); }) ==
        "[gather] tensor: an undefined tensor has no value; operands: f64 [2]");
  const std::vector<Tensor> many(100, constant({1}, {1}));
  const std::string error = error_of([&] { stack(many, 7); });
  CHECK(error.ends_with("f64 [1], f64 [1], ..."));
  CHECK(error.size() < 200);
}

TEST_CASE("OperationScope: what is about other things than operands stays as it is") {
  const Tensor x = constant({1}, {1});
  CHECK_THROWS_WITH_AS(raise("[mine] outside"), "[mine] outside", Error);
  const OperationScope outer("outer", x);
  {
    const Tensor y = constant({1, 2}, {2});
    const OperationScope inner("inner", y);
    CHECK_THROWS_WITH_AS(raise<ShapeError>("[mine] inside"), "[outer] mine: inside; operands: f64 [1]", ShapeError);
    CHECK_THROWS_WITH_AS(raise<ShapeError>("no name"), "[outer] no name; operands: f64 [1]", ShapeError);
  }
  CHECK_THROWS_WITH_AS(raise<SyncError>("[sync] a device is missing"), "[sync] a device is missing", SyncError);
  CHECK_THROWS_WITH_AS(raise<OutOfMemoryError>("[memory] full"), "[memory] full", OutOfMemoryError);
}

}  // namespace
}  // namespace tutti
