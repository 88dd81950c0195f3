// SPDX-License-Identifier: Apache-2.0
// Gradients that end where a synchronisation group wants them.
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

// One flat array with a place for each parameter, filled with what must not shine through.
struct Places {
  explicit Places(const std::vector<Tensor>& parameters) {
    std::int64_t total = 0;
    for (const Tensor& parameter : parameters) total += parameter.size();
    flat = Array::full({total}, 777.0, DType::f64, test_device());
    std::int64_t begin = 0;
    for (const Tensor& parameter : parameters) {
      places.push_back(flat.slice(0, begin, begin + parameter.size()).reshape(parameter.shape()));
      parameter.gradient_slot().destination = places.back();
      begin += parameter.size();
    }
  }
  Array flat;
  std::vector<Array> places;
};

// The same gradients with and without destinations, once and accumulated.
void check_destinations(const CheckedFunction& f, const std::vector<Tensor>& parameters) {
  std::vector<Tensor> plain;
  for (const Tensor& parameter : parameters) plain.emplace_back(parameter.array().copy(), true);
  const Places places(parameters);
  for (int round = 0; round < 2; ++round) {
    backward(sum(square(f(plain))));
    backward(sum(square(f(parameters))));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const GradientSlot& slot = parameters[i].gradient_slot();
      CHECK(slot.gradient.raw_data() == places.places[i].raw_data());
      CHECK(places.places[i].to_vector<double>() == plain[i].grad().to_vector<double>());
    }
  }
}

using Inputs = std::vector<Tensor>;

TEST_CASE("destination: every operation's gradient of a parameter ends there") {
  const Tensor x = spread({4, 3}, 1).detach();
  const Tensor image = spread({2, 2, 5, 5}, 2).detach();
  const Tensor tokens = index({1, 1, 0, 2, 1, 0}, {2, 3});
  SUBCASE("linear") {
    check_destinations([&](const Inputs& in) { return linear(x, in[0], in[1]); }, {spread({5, 3}, 3), spread({5}, 4)});
  }
  SUBCASE("matmul, either side") {
    check_destinations([&](const Inputs& in) { return matmul(x, in[0]); }, {spread({3, 2}, 3)});
    check_destinations([&](const Inputs& in) { return matmul(in[0], x); }, {spread({2, 4}, 3)});
    check_destinations([&](const Inputs& in) { return matmul(transpose(in[0]), x); }, {spread({4, 2}, 3)});
  }
  SUBCASE("batched matmul, the parameter broadcast") {
    check_destinations([&](const Inputs& in) { return matmul(reshape(x, {2, 2, 3}), in[0]); }, {spread({3, 2}, 3)});
  }
  SUBCASE("conv2d") {
    check_destinations([&](const Inputs& in) { return conv2d(image, in[0], in[1]); },
                       {spread({3, 2, 2, 2}, 3), spread({3}, 4)});
  }
  SUBCASE("conv1d of groups of channels") {
    const Tensor sequences = spread({2, 2, 6}, 2).detach();
    check_destinations([&](const Inputs& in) { return conv1d(sequences, in[0], in[1], {.groups = 2}); },
                       {spread({4, 1, 3}, 3), spread({4}, 4)});
  }
  SUBCASE("transposed convolutions") {
    check_destinations(
        [&](const Inputs& in) {
          return conv_transpose2d(image, in[0], in[1], {.stride = {2, 1}});
        },
        {spread({2, 3, 2, 2}, 3), spread({3}, 4)});
    const Tensor volume = expand_dims(image, 2);
    check_destinations([&](const Inputs& in) { return conv_transpose3d(volume, in[0], in[1]); },
                       {spread({2, 3, 2, 2, 2}, 3), spread({3}, 4)});
  }
  SUBCASE("conv3d") {
    const Tensor volume = expand_dims(image, 2);
    check_destinations(
        [&](const Inputs& in) {
          return conv3d(volume, in[0], in[1], {.padding = {1, 0, 0}});
        },
        {spread({3, 2, 3, 2, 2}, 3), spread({3}, 4)});
  }
  SUBCASE("gather") {
    check_destinations([&](const Inputs& in) { return gather(in[0], 0, tokens); }, {spread({4, 3}, 3)});
  }
  SUBCASE("elementwise, broadcast and not, through views") {
    check_destinations(
        [&](const Inputs& in) {
          return x * in[0] + reshape(in[1], {4, 1});
        },
        {spread({3}, 3), spread({4}, 4)});
    check_destinations(
        [&](const Inputs& in) {
          return tanh(in[0]) + permute(in[1], {1, 0});
        },
        {spread({4, 3}, 3), spread({3, 4}, 4)});
  }
  SUBCASE("a parameter used twice, and views of views") {
    check_destinations([&](const Inputs& in) { return linear(linear(x, in[0]), in[0]); }, {spread({3, 3}, 3)});
    check_destinations(
        [&](const Inputs& in) {
          return matmul(x, transpose(reshape(in[0], {2, 3})));
        },
        {spread({6}, 3)});
  }
  SUBCASE("places that lie otherwise, of operations that write to contiguous ones") {
    check_destinations(
        [&](const Inputs& in) {
          return conv2d(image, permute(in[0], {1, 0, 2, 3}));
        },
        {spread({2, 3, 2, 2}, 3)});
    check_destinations([&](const Inputs& in) { return gather(transpose(in[0]), 0, tokens); }, {spread({3, 4}, 3)});
    check_destinations([&](const Inputs& in) { return take(in[0], index({2, 0, 2}, {3}), 1); }, {spread({4, 3}, 3)});
    check_destinations(
        [&](const Inputs& in) {
          return layer_norm(x, {4, 3}, transpose(in[0]), transpose(in[1]));
        },
        {spread({3, 4}, 3), spread({3, 4}, 4)});
  }
  SUBCASE("an input's gradient of the same shape beside it") {
    check_destinations([&](const Inputs& in) { return matmul(tanh(in[1]), in[0]); },
                       {spread({3, 3}, 3), spread({3, 3}, 4)});
    check_destinations([&](const Inputs& in) { return in[0] + in[1]; }, {spread({3, 3}, 3), spread({3, 3}, 4)});
  }
}

TEST_CASE("destination: a weight's gradient is written there at once, not copied") {
  const Tensor x = spread({1, 256}, 1).detach();
  const Tensor weight = spread({256, 256}, 2);
  const Places places({weight});
  const Tensor loss = sum(linear(x, weight));
  MemoryPool& pool = memory_pool(test_device());
  synchronize(test_device());
  pool.reset_peak();
  const std::size_t before = pool.statistics().in_use;
  backward(loss);
  synchronize(test_device());
  CHECK(pool.statistics().peak_in_use - before < static_cast<std::size_t>(weight.size()) * sizeof(double));
}

TEST_CASE("destination: a gradient that the user holds keeps its values while more is accumulated") {
  const Tensor weight = leaf({1, 2});
  const Places places({weight});
  backward(sum(weight * 3));
  const Tensor held = weight.grad();
  backward(sum(weight * 4));
  CHECK(held.to_vector<double>() == Values{3, 3});
  CHECK(weight.grad().to_vector<double>() == Values{7, 7});
}

TEST_CASE("destination: grad() leaves it alone") {
  const Tensor weight = leaf({1, 2});
  const Places places({weight});
  const Tensor inputs[] = {weight};
  CHECK(grad(sum(weight * 3), inputs)[0].to_vector<double>() == Values{3, 3});
  CHECK(places.flat.to_vector<double>() == Values{777, 777});
}

}  // namespace
}  // namespace tutti
