// SPDX-License-Identifier: Apache-2.0
// What operations refuse, and the shapes they give. Their values are tested beside the kernels.
#include <tutti/backend/operations.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

using Floats = std::vector<float>;

Array f32(const Shape& shape, Device device = test_device()) { return Array::zeros(shape, DType::f32, device); }
Array of(DType dtype, const Shape& shape) { return Array::zeros(shape, dtype, test_device()); }
const std::initializer_list<std::int64_t> kNoAxes = {};

Array reduce_axes(Reduction kind, const Array& array, std::vector<std::int64_t> axes, bool keep_dims = false) {
  return reduce(kind, array, axes, keep_dims);
}

TEST_CASE("elementwise operations name what does not fit") {
  using namespace elementwise;
  CHECK_THROWS_WITH_AS(apply(Add{}, f32({2, 3}), f32({4})), "[add] shapes [2, 3] and [4] cannot be broadcast together",
                       ShapeError);
  CHECK_THROWS_WITH_AS(apply(Multiply{}, f32({2}), of(DType::i32, {2})),
                       as_tested("[multiply] operands have different dtypes: f32 [2] on cpu:0 and i32 [2] on cpu:0"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(apply(Add{}, f32({2}), f32({2}, test_device(1))),
                       as_tested("[add] operands are on different devices: f32 [2] on cpu:0 and f32 [2] on cpu:1"),
                       DeviceError);
  CHECK_THROWS_WITH_AS(apply(Exp{}, of(DType::i64, {2})),
                       as_tested("[exp] takes a floating type, not i64 [2] on cpu:0"), DTypeError);
  CHECK_THROWS_AS(apply(Negate{}, of(DType::boolean, {2})), DTypeError);
  CHECK_THROWS_WITH_AS(sum(of(DType::boolean, {2})), "[sum] bools have no sum: use count_nonzero, or cast", DTypeError);
  CHECK_THROWS_AS(apply(BitAnd{}, f32({2}), f32({2})), DTypeError);
  CHECK_THROWS_WITH_AS(apply(Add{}, Array{}, f32({2})), "[add] an operand is undefined", Error);
  CHECK_THROWS_AS(apply(Add{}, f32({2}), Array{}), Error);
}

TEST_CASE("elementwise operations broadcast, and comparisons give bool") {
  using namespace elementwise;
  const Array column = Array::arange(2, DType::f32, test_device()).reshape({2, 1});
  const Array row = Array::arange(3, DType::f32, test_device());
  CHECK(apply(Add{}, column, row).to_vector<float>() == Floats{0, 1, 2, 1, 2, 3});
  const Array less = apply(Less{}, column, row);
  CHECK(less.dtype() == DType::boolean);
  CHECK(less.to_vector<bool>() == std::vector<bool>{false, true, true, false, false, true});
  CHECK(apply(Add{}, f32({0, 3}), f32({1})).shape() == Shape{0, 3});
  const Array gradient =
      apply_gradient(Multiply{}, ElementwiseCall::Part::gradient_lhs,
                     std::vector<Array>{column, row, Array::full({2, 3}, 2, DType::f32, test_device())});
  CHECK(gradient.to_vector<float>() == Floats{0, 2, 4, 0, 2, 4});
}

TEST_CASE("where wants a bool mask") {
  const Array mask = Array::from({true, false}, {2, 1}, test_device());
  const Array a = Array::full({}, 1, DType::f32, test_device());
  CHECK(where(mask, a, f32({3})).to_vector<float>() == Floats{1, 1, 1, 0, 0, 0});
  CHECK_THROWS_WITH_AS(where(a, a, a), as_tested("[where] takes bool, not f32 [] on cpu:0"), DTypeError);
  CHECK_THROWS_AS(where(mask, a, of(DType::f64, {})), DTypeError);
  CHECK_THROWS_AS(where(mask, a, f32({3}, test_device(1))), DeviceError);
  CHECK_THROWS_AS(where(mask, f32({2}), f32({3})), ShapeError);
}

TEST_CASE("reductions give the right shapes") {
  const Array array = Array::arange(24, DType::f32, test_device()).reshape({2, 3, 4});
  CHECK(reduce_axes(Reduction::sum, array, {1}).shape() == Shape{2, 4});
  CHECK(reduce_axes(Reduction::sum, array, {-1, 0}).to_vector<float>() == Floats{60, 92, 124});
  CHECK(reduce_axes(Reduction::max, array, {0, 2}, true).shape() == Shape{1, 3, 1});
  CHECK(sum(array, kNoAxes).item<float>() == 276);
  CHECK(sum(array, kNoAxes, true).shape() == Shape{1, 1, 1});
  CHECK(sum(Array::full({}, 3, DType::f32, test_device())).item<float>() == 3);
  CHECK_THROWS_WITH_AS(reduce_axes(Reduction::max, array, {0, -3}), "[max] axis -3 is named twice, for shape [2, 3, 4]",
                       ShapeError);
  CHECK_THROWS_AS(reduce_axes(Reduction::sum, array, {3}), ShapeError);
  CHECK_THROWS_AS(reduce_axes(Reduction::sum, of(DType::boolean, {2}), {}), DTypeError);
}

TEST_CASE("the sum of nothing is 0, its maximum an error") {
  CHECK(sum(f32({0})).item<float>() == 0);
  CHECK(reduce_axes(Reduction::sum_of_squares, f32({2, 0}), {1}).to_vector<float>() == Floats{0, 0});
  CHECK(reduce_axes(Reduction::max, f32({0, 3}), {1}).shape() == Shape{0});
  CHECK_THROWS_WITH_AS(reduce_axes(Reduction::max, f32({0, 3}), {0}), "[max] nothing to choose from in shape [0, 3]",
                       ShapeError);
  CHECK_THROWS_AS(arg_reduce(ArgReduction::arg_max, f32({2, 0}), 1), ShapeError);
}

TEST_CASE("sum_to undoes broadcasting") {
  const Array array = Array::arange(6, DType::f32, test_device()).reshape({2, 3});
  CHECK(sum_to(array, {2, 3}).storage() == array.storage());
  CHECK(sum_to(array, {3}).to_vector<float>() == Floats{3, 5, 7});
  CHECK(sum_to(array, {2, 1}).to_vector<float>() == Floats{3, 12});
  CHECK(sum_to(array, {}).item<float>() == 15);
  CHECK(sum_to(array.expand_dims(0), {2, 3}).storage() == array.storage());
  CHECK_THROWS_WITH_AS(sum_to(array, {4}), "[sum_to] shape [4] does not broadcast to [2, 3]", ShapeError);
  CHECK_THROWS_AS(sum_to(array, {1, 2, 3}), ShapeError);
}

TEST_CASE("argmax gives i64 along one axis") {
  const Array array = Array::from<float>({1, 5, 2, 7, 0, 3}, {2, 3}, test_device());
  const Array index = arg_reduce(ArgReduction::arg_max, array, -1);
  CHECK(index.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  CHECK(arg_reduce(ArgReduction::arg_min, array, 0, true).shape() == Shape{1, 3});
  CHECK_THROWS_WITH_AS(arg_reduce(ArgReduction::arg_max, array, 2), "[argmax] axis 2 is out of range for rank 2",
                       ShapeError);
}

TEST_CASE("matmul") {
  CHECK_THROWS_WITH_AS(matmul(f32({64, 784}), f32({512, 10})),
                       "[matmul] inner dimensions differ: [64, 784] x [512, 10]", ShapeError);
  CHECK_THROWS_WITH_AS(matmul(f32({3}), f32({3, 2})), "[matmul] operands must have rank 2 or more: [3] x [3, 2]",
                       ShapeError);
  CHECK_THROWS_AS(matmul(f32({2, 2, 3}), f32({3, 3, 2})), ShapeError);
  CHECK_THROWS_AS(matmul(of(DType::i32, {2, 2}), of(DType::i32, {2, 2})), DTypeError);
  CHECK(matmul(f32({2, 0}), f32({0, 3})).to_vector<float>() == Floats(6, 0));
  CHECK(matmul(f32({0, 2}), f32({2, 3})).shape() == Shape{0, 3});

  // Every layout gives the same product.
  const Array a = Array::arange(6, DType::f32, test_device()).reshape({2, 3});
  const Array b = Array::arange(12, DType::f32, test_device()).reshape({3, 4});
  const Floats expected = {20, 23, 26, 29, 56, 68, 80, 92};
  CHECK(matmul(a, b).to_vector<float>() == expected);
  CHECK(matmul(a.transpose().copy().transpose(), b).to_vector<float>() == expected);
  CHECK(matmul(a, b.transpose().copy().transpose()).to_vector<float>() == expected);
  const Array wide = concatenate(std::vector<Array>{b, b}, 1).slice(1, 4, 8);
  CHECK(matmul(a, wide).to_vector<float>() == expected);
  const Array spread = concatenate(std::vector<Array>{b.expand_dims(2), b.expand_dims(2)}, 2).reshape({3, 8});
  CHECK(matmul(a, spread.slice(1, 0, 8, 2)).to_vector<float>() == expected);
  const Array batch = matmul(a.expand_dims(0).broadcast_to({3, 2, 3}), b.broadcast_to({2, 1, 3, 4}));
  CHECK(batch.shape() == Shape{2, 3, 2, 4});
  CHECK(batch.slice(0, 1, 2).slice(1, 2, 3).reshape({2, 4}).to_vector<float>() == expected);
}

TEST_CASE("softmax") {
  const Array row = softmax(SoftmaxKind::softmax, f32({2, 4}).transpose(), 0);
  CHECK(row.shape() == Shape{4, 2});
  CHECK(row.to_vector<float>() == Floats(8, 0.25F));
  CHECK_THROWS_WITH_AS(softmax(SoftmaxKind::log_softmax, of(DType::i32, {2}), 0),
                       as_tested("[log_softmax] takes a floating type, not i32 [2] on cpu:0"), DTypeError);
  CHECK_THROWS_AS(softmax(SoftmaxKind::softmax, f32({}), 0), ShapeError);
  CHECK_THROWS_WITH_AS(softmax_gradient(SoftmaxKind::softmax, f32({2, 3}), f32({3, 2}), 0),
                       "[softmax] the gradient must have shape [2, 3], not [3, 2]", ShapeError);
}

TEST_CASE("gather, scatter_add and concatenate") {
  const Array input = Array::arange(6, DType::f32, test_device()).reshape({2, 3});
  const Array index = Array::from<std::int64_t>({2, 0, 1, 1}, {2, 2}, test_device());
  CHECK(gather(input, 1, index).to_vector<float>() == Floats{2, 0, 4, 4});
  CHECK(scatter_add({2, 3}, Array::full({2, 2}, 1, DType::f32, test_device()), -1, index).to_vector<float>() ==
        Floats{1, 0, 1, 0, 2, 0});
  CHECK_THROWS_AS(gather(input, 1, f32({2, 2})), DTypeError);
  CHECK_THROWS_WITH_AS(gather(input, 0, Array::zeros({1, 4}, DType::i64, test_device())),
                       "[gather] index [1, 4] does not fit [2, 3] along axis 0", ShapeError);
  CHECK_THROWS_AS(gather(input, 1, Array::zeros({2}, DType::i64, test_device())), ShapeError);
  CHECK_THROWS_AS(gather(f32({2, 0}), 1, index), ShapeError);
  CHECK_THROWS_AS(scatter_add({2, 3}, f32({2, 1}), 1, index), ShapeError);
  const auto out_of_range = [&] {
    gather(input, 0, index);
    synchronize(test_device());
  };
  CHECK_THROWS_AS(out_of_range(), ShapeError);

  CHECK(concatenate(std::vector<Array>{input, input.slice(1, 0, 1)}, -1).to_vector<float>() ==
        Floats{0, 1, 2, 0, 3, 4, 5, 3});
  CHECK(concatenate(std::vector<Array>{input, f32({0, 3})}, 0).shape() == Shape{2, 3});
  CHECK_THROWS_WITH_AS(concatenate(std::vector<Array>{input, f32({3, 2})}, 0),
                       "[concatenate] shapes [2, 3] and [3, 2] differ beside axis 0", ShapeError);
  CHECK_THROWS_AS(concatenate(std::vector<Array>{input, f32({3})}, 0), ShapeError);
  CHECK_THROWS_AS(concatenate({}, 0), ShapeError);
}

TEST_CASE("convolution and pooling check their geometry") {
  CHECK(conv2d({}, f32({2, 3, 8, 9}), f32({5, 3, 3, 3})).shape() == Shape{2, 5, 6, 7});
  CHECK(
      conv2d({.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}}, f32({1, 1, 7, 7}), f32({4, 1, 3, 3})).shape() ==
      Shape{1, 4, 4, 7});
  CHECK_THROWS_WITH_AS(conv2d({}, f32({2, 3, 8, 9}), f32({5, 4, 3, 3})),
                       "[conv2d] input [2, 3, 8, 9] has 3 channels, weight [5, 4, 3, 3] takes 4", ShapeError);
  CHECK_THROWS_WITH_AS(conv2d({}, f32({3, 8, 8}), f32({5, 3, 3, 3})),
                       "[conv2d] input [3, 8, 8] has no batch axis: expand_dims(x, 0) gives it one", ShapeError);
  CHECK_THROWS_AS(conv2d({}, f32({8, 8}), f32({5, 3, 3, 3})), ShapeError);
  CHECK_THROWS_AS(conv2d({}, f32({1, 1, 2, 2}), f32({1, 1, 3, 3})), ShapeError);
  CHECK_THROWS_AS(conv2d({.stride = {0, 1}}, f32({1, 1, 4, 4}), f32({1, 1, 3, 3})), ShapeError);
  CHECK_THROWS_AS(conv2d_input_gradient({}, f32({1, 1, 3, 3}), f32({1, 1, 3, 3}), {1, 1, 4, 4}), ShapeError);
  CHECK(conv2d({}, f32({0, 3, 8, 9}), f32({5, 3, 3, 3})).shape() == Shape{0, 5, 6, 7});
  CHECK(sum(conv2d_weight_gradient({}, f32({0, 5, 6, 7}), f32({0, 3, 8, 9}), {5, 3, 3, 3})).item<float>() == 0);

  CHECK(conv2d({.groups = 2}, f32({2, 4, 8, 9}), f32({6, 2, 3, 3})).shape() == Shape{2, 6, 6, 7});
  CHECK_THROWS_WITH_AS(conv2d({.groups = 3}, f32({2, 4, 8, 9}), f32({6, 2, 3, 3})),
                       "[conv2d] 3 groups must divide both 4 channels in and 6 out, of input [2, 4, 8, 9] and weight "
                       "[6, 2, 3, 3]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(conv2d({.groups = 2}, f32({2, 4, 8, 9}), f32({6, 4, 3, 3})),
                       "[conv2d] input [2, 4, 8, 9] in 2 groups has 2 channels in each, weight [6, 4, 3, 3] is for 4",
                       ShapeError);
  CHECK_THROWS_WITH_AS(conv2d({.groups = 0}, f32({2, 4, 8, 9}), f32({6, 4, 3, 3})),
                       "[conv2d] groups must be at least 1, not 0", ShapeError);

  CHECK(avg_pool2d({}, f32({1, 2, 5, 6})).shape() == Shape{1, 2, 2, 3});
  CHECK_THROWS_WITH_AS(avg_pool2d({.padding = {2, 0}}, f32({1, 1, 4, 4})), doctest::Contains("[avg_pool2d] kernel 2"),
                       ShapeError);
  CHECK_THROWS_AS(avg_pool2d({}, Array::zeros({1, 1, 4, 4}, DType::i32, test_device())), DTypeError);
  CHECK_THROWS_AS(avg_pool2d_gradient({}, f32({1, 1, 3, 2}), {1, 1, 4, 4}), ShapeError);

  const auto [maxima, index] = max_pool2d({}, f32({1, 2, 5, 6}));
  CHECK(maxima.shape() == Shape{1, 2, 2, 3});
  CHECK(index.dtype() == DType::i64);
  CHECK_THROWS_AS(max_pool2d({.padding = {2, 0}}, f32({1, 1, 4, 4})), ShapeError);
  CHECK_THROWS_AS(max_pool2d({}, f32({1, 1, 1, 4})), ShapeError);
  CHECK_THROWS_AS(max_pool2d({}, f32({1, 4, 4})), ShapeError);
}

}  // namespace
}  // namespace tutti
