// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/tensor/operation_scope.h>

#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/error_text.h>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tutti {
namespace {

using testing::error_of;

TEST_CASE("OperationScope: operations that are composed of others name themselves, and none of those") {
  const Tensor x = constant({1, 2, 3, 4, 5, 6}, {2, 3});
  const std::string of_x = " axis 7 is out of range for rank 2; operands: f64 [2, 3]";
  CHECK(error_of([&] { mean(x, 7); }) == "[mean]" + of_x);
  CHECK(error_of([&] { stddev(x, 7); }) == "[stddev]" + of_x);
  CHECK(error_of([&] { logsumexp(x, 7); }) == "[logsumexp]" + of_x);
  CHECK(error_of([&] { sort(x, 7); }) == "[sort]" + of_x);
  CHECK(error_of([&] { sum(x, 7); }) == "[sum]" + of_x);
  CHECK(error_of([&] { x.mean(7); }) == "[mean]" + of_x);
}

TEST_CASE("OperationScope: dtypes, literals, operands that are undefined, and many of them") {
  const Tensor x = constant({1, 2}, {2});
  const Tensor whole(Array::from(std::vector<std::int64_t>{1, 2, 3}, {3}, test_device()));
  CHECK(error_of([&] { x& whole; }) == "[bitwise_and] takes integers or bool, not f64; operands: f64 [2], i64 [3]");
  CHECK(error_of([&] { whole & 0.5; }) ==
        "[bitwise_and] takes integers or bool, not f32; operands: i64 [3], the literal 0.5");
  CHECK(error_of([&] { x + Tensor(); }) == "[add] operand 2 is undefined; operands: f64 [2]");
  CHECK(error_of([&] { Tensor() + x; }) == "[add] operand 1 is undefined; operands: undefined, f64 [2]");
  CHECK(error_of([&] { gather(x, 0, Tensor()); }) == "[gather] operand 2 is undefined; operands: f64 [2]");
  CHECK(error_of([&] { mish(Tensor()); }) == "[mish] the operand is undefined");
  CHECK(error_of([&] {
          concatenate({x, Tensor(), x});
        }) == "[concatenate] operand 2 is undefined; operands: f64 [2], undefined, f64 [2]");
  CHECK(error_of([&] { Tensor().shape(); }) == "[tensor] an undefined tensor has no value");
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
    CHECK_THROWS_WITH_AS(raise<ShapeError>("[mine] inside"), "[outer] inside; operands: f64 [1]", ShapeError);
    CHECK_THROWS_WITH_AS(raise<ShapeError>("no name"), "[outer] no name; operands: f64 [1]", ShapeError);
  }
  CHECK_THROWS_WITH_AS(raise<SyncError>("[sync] a device is missing"), "[sync] a device is missing", SyncError);
  CHECK_THROWS_WITH_AS(raise<OutOfMemoryError>("[memory] full"), "[memory] full", OutOfMemoryError);
}

TEST_CASE("OperationScope: devices are told where they differ") {
  const Tensor here = constant({1, 2}, {2});
  const Tensor there = constant({1, 2, 3}, {3}, test_devices(2)[1]);
  const std::string operands =
      fmt::format("; operands: f64 [2] on {}, f64 [3] on {}", to_string(here.device()), to_string(there.device()));
  for (const std::string& error : {error_of([&] { matmul(here, there); }), error_of([&] {
                                     stack({here, there});
                                   }),
                                   error_of([&] {
                                     einsum("i,i->", {here, there});
                                   }),
                                   error_of([&] { embedding(here, cast(there, DType::i64)); })}) {
    INFO(error);
    CHECK((error.ends_with(operands) || error.ends_with(fmt::format("i64 [3] on {}", to_string(there.device())))));
  }
  const std::string error = error_of([&] { einsum("i,i->", {here, there}); });
  CHECK(error.starts_with("[einsum] operands are on different devices: "));
}

TEST_CASE("OperationScope: what an operation made bears its name, not that of its last step") {
  const Tensor x = spread({3, 4}, 1, true);
  const auto maker = [&](const Tensor& y) {
    const std::string error = error_of([&] { y + constant({1, 2, 3, 4, 5, 6, 7}, {7}); });
    const std::size_t begin = error.find(" made by ") + 9;
    return error.substr(begin, error.find(',', begin) - begin);
  };
  CHECK(maker(flatten(x)) == "flatten");
  CHECK(maker(tile(x, {2, 2})) == "tile");
  CHECK(maker(stddev(x, 1)) == "stddev");
  CHECK(maker(var(x, 1)) == "var");
  CHECK(maker(norm(x, 1)) == "norm");
  CHECK(maker(masked_fill(x, x > 0, Tensor(1.0))) == "masked_fill");
  CHECK(maker(mish(x)) == "mish");
  CHECK(maker(logsumexp(x, 1)) == "logsumexp");
  CHECK(maker(einsum("ij->ji", {x})) == "einsum");
  CHECK(maker(stack({x, x})) == "stack");
  CHECK(maker(cumprod(x, 0)) == "cumprod");
  CHECK(maker(x[index({0, 2}, {2})]) == "index");
  CHECK(maker(exp(x)) == "exp");
  CHECK(norm(x).node()->title() == "norm");
  CHECK(stddev(x).node()->step_title() == "stddev (divide)");
  CHECK(exp(x).node()->step_title() == "exp");
}

}  // namespace
}  // namespace tutti
