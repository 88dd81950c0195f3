// SPDX-License-Identifier: Apache-2.0
// The kernels of convolutions and their gradients on the host against the CPU backend.
#include <tutti/backend/cuda/kernels/convolution.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using cuda_kernels::Convolution;
using cuda_kernels::ForwardProduct;
using cuda_kernels::InputGradientProduct;
using cuda_kernels::SumParts;
using cuda_kernels::WeightGradientProduct;
using on_host::DeviceArray;

struct Case {
  Conv2dGeometry geometry;
  Shape input;
  Shape weight;
};

const Case kCases[] = {
    {{}, {1, 1, 1, 1}, {1, 1, 1, 1}},
    {{}, {2, 3, 8, 9}, {5, 3, 3, 3}},
    {{.padding = {1, 1}}, {2, 4, 9, 9}, {70, 4, 3, 3}},  // more channels than a tile's
    {{.stride = {2, 2}, .padding = {1, 1}}, {2, 3, 11, 10}, {6, 3, 3, 3}},
    {{.padding = {2, 0}, .dilation = {2, 3}}, {2, 2, 12, 13}, {3, 2, 3, 2}},
    {{.stride = {3, 2}, .padding = {2, 3}, .dilation = {1, 2}}, {1, 20, 14, 15}, {3, 20, 5, 4}},
    {{}, {4, 6, 7, 7}, {8, 6, 1, 1}},
    {{}, {3, 1, 28, 28}, {4, 1, 5, 5}},                   // the weight's gradient in parts
    {{.stride = {2, 2}}, {2, 2, 8, 8}, {3, 2, 1, 1}},     // elements that no tap reads
    {{.padding = {1, 1}}, {1, 64, 4, 4}, {3, 64, 3, 3}},  // the result in parts
    {{.padding = {1, 1}, .groups = 2}, {2, 12, 9, 9}, {10, 6, 3, 3}},
    {{.stride = {2, 1}, .dilation = {1, 2}, .groups = 2}, {1, 128, 4, 6}, {6, 64, 3, 3}},  // and of groups
    {{.padding = {1, 1}, .groups = 6}, {2, 6, 9, 8}, {6, 1, 3, 3}},                        // narrow
    {{.stride = {2, 3}, .padding = {2, 4}, .groups = 3}, {3, 3, 20, 21}, {6, 1, 5, 9}},
    {{.stride = {1, 2}, .padding = {3, 4}, .dilation = {2, 1}, .groups = 2}, {1, 4, 17, 25}, {4, 2, 6, 7}},
};

Convolution convolution_of(const Case& c, const Shape& output) {
  const auto axis = [&](std::size_t i) {
    return cuda_kernels::ConvolvedAxis{c.input[i + 2],       c.weight[i + 2],       output[i + 2],
                                       c.geometry.stride[i], c.geometry.padding[i], c.geometry.dilation[i]};
  };
  const std::int64_t groups = c.geometry.groups;
  return {c.input[0], c.weight[1], c.weight[0] / groups, axis(0), axis(1), groups};
}

/// Sums of ordinary numbers' products lose nothing in either order, but for the last bits of the longest in f32.
template <class Product>
void check(const char* name, const Product& product, const Array& lhs, const Array& rhs, const Array& expected) {
  CAPTURE(name);
  CAPTURE(to_string(lhs.shape()));
  CAPTURE(to_string(rhs.shape()));
  const DeviceArray left(lhs);
  const DeviceArray right(rhs);
  const Array found = on_host::in_every_order([&] {
    DeviceArray to = DeviceArray::unwritten(expected.bytes());
    DeviceArray partial = DeviceArray::unwritten(cuda_kernels::partial_bytes(product, expected.dtype()));
    cuda_kernels::launch_convolution(nullptr, expected.dtype(), product, left.data(), right.data(), to.data(),
                                     partial.data());
    return to.read(expected.shape(), expected.dtype());
  });
  CHECK(on_host::differences(found, expected, expected.dtype() == DType::f32 ? 1e-5 : 1e-12) == 0);
}

TEST_CASE("convolutions and both of their gradients") {
  samples::RandomViews views(32);
  int in_parts = 0;
  for (const Case& c : kCases)
    for (const DType dtype : {DType::f32, DType::f64}) {
      const auto filled = [&](const Shape& shape) {
        const Array array = Array::empty(shape, dtype, cpu());
        views.fill_ordinary(array);
        return array;
      };
      const Array input = filled(c.input);
      const Array weight = filled(c.weight);
      const Array output = conv2d(c.geometry, input, weight);
      const Array gradient = filled(output.shape());
      const Convolution convolution = convolution_of(c, output.shape());
      check("forward", ForwardProduct{convolution}, weight, input, output);
      check("input gradient", InputGradientProduct{convolution}, weight, gradient,
            conv2d_input_gradient(c.geometry, gradient, weight, c.input));
      check("weight gradient", WeightGradientProduct{convolution}, gradient, input,
            conv2d_weight_gradient(c.geometry, gradient, input, c.weight));
      in_parts += SumParts::of(ForwardProduct{convolution}).count > 1 ? 1 : 0;
      in_parts += SumParts::of(WeightGradientProduct{convolution}).count > 1 ? 1 : 0;
    }
  CHECK(in_parts >= 4);
}

TEST_CASE("narrow convolutions with fewer blocks than they need") {
  const Case c{{.padding = {1, 1}, .groups = 3}, {2, 3, 30, 30}, {3, 1, 3, 3}};
  const Array input = Array::arange(element_count(c.input), DType::f64, cpu()).reshape(c.input);
  const Array weight = Array::arange(element_count(c.weight), DType::f64, cpu()).reshape(c.weight);
  const Array output = conv2d(c.geometry, input, weight);
  const Convolution convolution = convolution_of(c, output.shape());
  on_host::schedule.most_blocks = 2;
  check("forward", ForwardProduct{convolution}, weight, input, output);
  check("input gradient", InputGradientProduct{convolution}, weight, output,
        conv2d_input_gradient(c.geometry, output, weight, c.input));
  check("weight gradient", WeightGradientProduct{convolution}, output, input,
        conv2d_weight_gradient(c.geometry, output, input, c.weight));
  on_host::schedule.most_blocks = ~0U;
}

TEST_CASE("what is outside of the images does not reach a convolution's results, NaN inside does") {
  const Case c{{.padding = {1, 1}}, {1, 2, 5, 5}, {3, 2, 3, 3}};
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Array input = Array::full(c.input, 1, dtype, cpu());
    input.slice(2, 0, 1).fill(std::numeric_limits<double>::quiet_NaN());
    input.slice(3, 4, 5).fill(std::numeric_limits<double>::infinity());
    const Array weight = Array::full(c.weight, 2, dtype, cpu());
    const Array output = conv2d(c.geometry, input, weight);
    check("forward", ForwardProduct{convolution_of(c, output.shape())}, weight, input, output);
  }
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
