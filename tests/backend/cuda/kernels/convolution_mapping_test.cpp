// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/parts/convolution_mapping.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#include <doctest/doctest.h>

#include <tuple>

TEST_SUITE_BEGIN("cpu");

namespace tutti::cuda_kernels {
namespace {

/// The product by its definition; small integers, so that sums are exact.
template <class Product>
std::vector<double> multiply(const Product& product, const Array& lhs, const Array& rhs, std::int64_t size) {
  synchronize(Device{});  // the memory itself is read
  std::vector<double> result(static_cast<std::size_t>(size), -1e9);
  for (std::int64_t i = 0; i < product.c.groups * product.m() * product.n(); ++i) {
    const auto& [group, m, n] = Place(product, i);
    const typename Product::Column column = product.column(n);
    double sum = 0.0;
    for (std::int64_t k = 0; k < product.k(); ++k) {
      const typename Product::Row row = product.row(k);
      const std::int64_t from = product.rhs(row, column);
      if (from == kNone) continue;
      const std::int64_t left = group * product.lhs_step() + product.lhs(m, k, row);
      const std::int64_t right = group * product.rhs_step() + from;
      REQUIRE(left < lhs.size());
      REQUIRE(right < rhs.size());
      sum += lhs.data<double>()[left] * rhs.data<double>()[right];
    }
    double& to = result.at(static_cast<std::size_t>(group * product.result_step() + product.result(m, n)));
    CHECK(to == -1e9);  // written once
    to = sum;
  }
  return result;
}

Array numbers(const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 29 % 23) - 11.0;
  return Array::from(values, shape, Device{});
}

TEST_CASE("convolution mapping: the products are the convolution and its gradients") {
  using Case = std::tuple<Conv2dGeometry, Shape, Shape>;
  for (const auto& [geometry, image, kernel] :
       {Case{{}, {2, 3, 5, 6}, {4, 3, 3, 2}}, Case{{{1, 1}, {1, 1}, {1, 1}}, {1, 2, 4, 4}, {3, 2, 3, 3}},
        Case{{{2, 3}, {1, 2}, {1, 1}}, {2, 2, 7, 8}, {2, 2, 3, 3}},
        Case{{{1, 2}, {2, 0}, {2, 3}}, {1, 2, 8, 9}, {3, 2, 3, 2}},
        Case{{{2, 2}, {0, 0}, {1, 1}}, {2, 1, 6, 6}, {2, 1, 1, 1}},
        Case{{{1, 2}, {1, 1}, {1, 1}, 3}, {2, 6, 5, 6}, {3, 2, 3, 2}},
        Case{{{1, 1}, {1, 1}, {2, 1}, 4}, {2, 4, 6, 5}, {8, 1, 3, 3}}}) {
    const Array input = numbers(image);
    const Array weight = numbers(kernel);
    const Array output = conv2d(geometry, input, weight);
    const Array gradient = numbers(output.shape());
    const auto axis = [&geometry = geometry, &image = image, &kernel = kernel, &output](std::size_t i) {
      return ConvolvedAxis{image[i + 2],       kernel[i + 2],       output.shape()[i + 2],
                           geometry.stride[i], geometry.padding[i], geometry.dilation[i]};
    };
    const std::int64_t groups = geometry.groups;
    const Convolution c{image[0], kernel[1], kernel[0] / groups, axis(0), axis(1), groups};
    CHECK(multiply(ForwardProduct{c}, weight, input, output.size()) == output.to_vector<double>());
    CHECK(multiply(InputGradientProduct{c}, weight, gradient, input.size()) ==
          conv2d_input_gradient(geometry, gradient, weight, image).to_vector<double>());
    CHECK(multiply(WeightGradientProduct{c}, gradient, input, weight.size()) ==
          conv2d_weight_gradient(geometry, gradient, input, kernel).to_vector<double>());
  }
}

TEST_CASE("convolution mapping: parts cover a sum, and are many only where tiles are few") {
  for (const std::int64_t k : {1, 15, 16, 17, 1000, 100000}) {
    const SumParts parts = SumParts::of(64, 9, k);
    CHECK(parts.count * parts.length >= k);
    CHECK((parts.count - 1) * parts.length < k);
    CHECK(parts.length % SumParts::kDepth == 0);
  }
  CHECK(SumParts::of(64, 9, 100000).count > 100);
  CHECK(SumParts::of(64, 9, 100).count == 1);
  CHECK(SumParts::of(4096, 4096, 100000).count == 1);
}

}  // namespace
}  // namespace tutti::cuda_kernels

TEST_SUITE_END();
