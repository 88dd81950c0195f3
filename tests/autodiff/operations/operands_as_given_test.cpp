// SPDX-License-Identifier: Apache-2.0
// Operations that make other operands of those that they are given: their errors show what the user gave, to what he
// called.
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/image_operations.h>
#include <tutti/autodiff/tensor/indexing.h>
#include <tutti/backend/error.h>
#include <tutti/backend/random.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/error_text.h>

#include <fmt/format.h>

#include <doctest/doctest.h>

#include <string>

namespace tutti {
namespace {

using testing::error_of;

Tensor zeros(const Shape& shape, DType dtype = DType::f64) { return Tensor(Array::zeros(shape, dtype, test_device())); }

TEST_CASE("errors: vectors of matmul, sequences of convolutions and windows have the shapes that were given") {
  const Tensor x = zeros({3, 4});
  const auto fails = [](const Tensor& a, const Tensor& b) { return error_of([&] { matmul(a, b); }); };
  CHECK(fails(x, zeros({5})) == "[matmul] inner dimensions differ: [3, 4] x [5]; operands: f64 [3, 4], f64 [5]");
  CHECK(fails(zeros({5}), x) == "[matmul] inner dimensions differ: [5] x [3, 4]; operands: f64 [5], f64 [3, 4]");
  CHECK(fails(zeros({5}), zeros({4})) == "[matmul] inner dimensions differ: [5] x [4]; operands: f64 [5], f64 [4]");
  CHECK(fails(x, zeros({})) == "[matmul] a scalar is no matrix: [3, 4] x []; operands: f64 [3, 4], f64 []");
  CHECK(matmul(x, zeros({2, 4, 5})).shape() == Shape{2, 3, 5});
  CHECK(matmul(zeros({4}), zeros({2, 4, 5})).shape() == Shape{2, 5});
  CHECK(error_of([&] {
          conv1d(zeros({2, 3, 9}), zeros({4, 2, 3}));
        }) ==
        "[conv1d] input [2, 3, 9] has 3 channels, weight [4, 2, 3] takes 2; operands: f64 [2, 3, 9], f64 [4, 2, 3]");
  CHECK(error_of([&] {
          max_pool1d(zeros({2, 3, 2}), {.kernel = 5});
        }) == "[max_pool1d] a window of 5 does not fit the padded input [2, 3, 2]; operands: f64 [2, 3, 2]");
}

TEST_CASE("errors: shapes and axes as they were asked for") {
  const Tensor x = zeros({3, 4});
  const std::string of_x = "; operands: f64 [3, 4]";
  CHECK(error_of([&] { reshape(x, {-1, -1}); }) == "[reshape] shape [-1, -1] leaves more than one length open" + of_x);
  CHECK(error_of([&] { reshape(x, {-2, -1}); }) == "[reshape] negative length in shape [-2, -1]" + of_x);
  CHECK(error_of([&] { expand_dims(x, 7); }) ==
        "[expand_dims] axis 7 is out of range for a new one of [3, 4]: -3 to 2" + of_x);
  CHECK(error_of([&] {
          stack({x, x}, -4);
        }) == "[stack] axis -4 is out of range for a new one of [3, 4]: -3 to 2" + of_x + ", f64 [3, 4]");
  CHECK(expand_dims(x, -3).shape() == Shape{1, 3, 4});
  CHECK(stack({x, x}, -1).shape() == Shape{3, 4, 2});
  CHECK(error_of([&] {
          concatenate({x, x}, 5);
        }) == "[concatenate] axis 5 is out of range for rank 2" + of_x + ", f64 [3, 4]");
  CHECK(error_of([&] {
          concatenate({x, zeros({3})}, 1);
        }) == "[concatenate] shapes [3, 4] and [3] differ beside axis 1" + of_x + ", f64 [3]");
  CHECK(error_of([&] { split(x, 2, 4); }) == "[split] axis 4 is out of range for rank 2" + of_x);
  CHECK(error_of([&] { cumsum(zeros({}), 3); }) == "[cumsum] axis 3 is out of range for rank 0; operands: f64 []");
  CHECK(cumprod(zeros({}), -1).shape() == Shape{});
}

TEST_CASE("errors: devices that differ are told without the shapes that operands have inside") {
  const Tensor x = zeros({3, 4});
  const Tensor there(Array::zeros({5}, DType::i64, test_device(1)));
  const std::string here = to_string(test_device());
  const std::string devices = fmt::format("{} and {}; operands: f64 [3, 4] on {}, i64 [5] on {}", here,
                                          to_string(there.device()), here, to_string(there.device()));
  CHECK(error_of([&] { take(x, there, 1); }) == fmt::format("[take] operands are on different devices: {}", devices));
  CHECK(error_of([&] { x + there; }) == fmt::format("[add] operands are on different devices: {}", devices));
}

TEST_CASE("errors: what was called is named") {
  CHECK(error_of([&] { ~zeros({2}); }) == "[bitwise_not] takes integers or bool, not f64; operands: f64 [2]");
  CHECK(error_of([&] { zeros({2}).to_vector<float>(); }).starts_with("[to_vector] read as f32, but it is f64 [2]"));
  Generator random(1);
  CHECK(error_of([&] { random.normal({2}, DType::i64, test_device()); }) == "[normal] draws floating types, not i64");
  CHECK(error_of([&] { random.uniform({2}, DType::u8, test_device()); }) == "[uniform] draws floating types, not u8");
}

// Kernels find these: on some devices when their results are waited for.
TEST_CASE("errors: an index out of range is told as what it is to the user, the first with its place") {
  const Tensor x = zeros({3, 4});
  const auto fails = [](const auto& f) { return error_of([&] { f().template to_vector<double>(); }); };
  const bool places = test_device().kind != DeviceKind::cuda;
  const auto expected = [&](const char* name, const char* index, const char* place, const char* rest) {
    return fmt::format("[{}] {}{} is out of range for {}", name, index, place, rest);
  };
  const auto check = [&](const std::string& error, const char* name, const char* index, const char* place,
                         const char* rest) {
    INFO(error);
    if (places)
      CHECK(error.starts_with(expected(name, index, place, rest)));
    else
      CHECK(error.find(expected(name, index, "", rest).substr(std::string(name).size() + 3)) != std::string::npos);
  };
  check(fails([&] {
          return embedding(x, index({0, 1, 2, 1, 7, 9}, {3, 2}));
        }),
        "embedding", "id 7", " at [2, 0]", "3 rows");
  check(fails([&] { return x[index({1, -9}, {2})]; }), "index", "position -9", " at [1]", "3 elements of its axis");
  check(fails([&] { return x[{all, index({9}, {})}]; }), "index", "position 9", "", "4 elements of its axis");
  check(fails([&] {
          return take(x, index({0, 9}, {1, 2}), 1);
        }),
        "take", "position 9", " at [0, 1]", "4 elements of its axis");
  check(fails([&] {
          return one_hot(index({1, 5}, {2}), 5, DType::f64);
        }),
        "one_hot", "label 5", " at [1]", "5 classes");
  CHECK(fails([&] {
          return take(zeros({0, 3}), index({0}, {1}), 0);
        }) == "[take] axis 0 of [0, 3] has no elements; operands: f64 [0, 3], i64 [1]");
  CHECK(fails([&] {
          return embedding(zeros({0, 3}), index({0}, {1}));
        }) == "[embedding] the table [0, 3] has no rows; operands: f64 [0, 3], i64 [1]");
}

}  // namespace
}  // namespace tutti
