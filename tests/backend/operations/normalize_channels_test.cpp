// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/random.h>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

using Values = std::vector<double>;
constexpr double kEpsilon = 1e-3;

Array noise(const Shape& shape, DType dtype, std::uint64_t seed, double mean = 0.0) {
  return Generator(seed).normal(shape, DType::f64, cpu(), mean, 1.0).cast(dtype);
}

Values values(const Array& array) { return array.cast(DType::f64).to_vector<double>(); }

void check_near(const Array& array, const Values& wanted, double epsilon) {
  const Values found = values(array);
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(epsilon));
}

struct Expected {
  Values output, mean, variance, gradient, weight, bias;
};

/// The formulas, in f64 and in the order in which they are written.
Expected expected(const Array& input, const Values& weight, const Values& bias, const Array& gradient) {
  const Values x = values(input);
  const Values dy = values(gradient);
  const auto n = static_cast<std::size_t>(input.length(0));
  const auto channels = static_cast<std::size_t>(input.length(1));
  const std::size_t size = x.size() / n / channels;
  const auto count = static_cast<double>(n * size);
  Expected result{Values(x.size()), {}, {}, Values(x.size()), {}, {}};
  for (std::size_t c = 0; c < channels; ++c) {
    const auto for_each = [&](const auto& f) {
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < size; ++j) f((i * channels + c) * size + j);
    };
    double mean = 0, variance = 0, level = 0, along = 0;
    for_each([&](std::size_t i) { mean += x[i] / count; });
    for_each([&](std::size_t i) { variance += (x[i] - mean) * (x[i] - mean) / count; });
    const double scale = 1 / std::sqrt(variance + kEpsilon);
    for_each([&](std::size_t i) {
      result.output[i] = (x[i] - mean) * scale * weight[c] + bias[c];
      level += dy[i];
      along += dy[i] * (x[i] - mean) * scale;
    });
    for_each([&](std::size_t i) {
      result.gradient[i] = weight[c] * scale * (dy[i] - level / count - (x[i] - mean) * scale * along / count);
    });
    result.mean.push_back(mean);
    result.variance.push_back(variance);
    result.weight.push_back(along);
    result.bias.push_back(level);
  }
  return result;
}

void check_against_formulas(const Shape& shape, DType dtype, bool affine, double mean) {
  CAPTURE(to_string(shape));
  CAPTURE(to_string(dtype));
  const DType computed = computed_in(dtype);
  const Array x = noise(shape, dtype, 1, mean);
  const Array dy = noise(shape, dtype, 2);
  const Array weight = affine ? noise({shape[1]}, computed, 3) : Array();
  const Array bias = affine ? noise({shape[1]}, computed, 4) : Array();
  const auto channels = static_cast<std::size_t>(shape[1]);
  const Expected wanted =
      expected(x, affine ? values(weight) : Values(channels, 1.0), affine ? values(bias) : Values(channels, 0.0), dy);
  const double rounding = computed == DType::f64 ? 1e-9 : 2e-5 * (1 + std::abs(mean));
  const double last = dtype == computed ? rounding : dtype == DType::bf16 ? 0.008 : 0.001;
  const NormalizedChannels run = normalize_channels(kEpsilon, x, weight, bias);
  CHECK(run.output.dtype() == dtype);
  check_near(run.output, wanted.output, last);
  check_near(run.mean, wanted.mean, rounding);
  check_near(run.variance, wanted.variance, rounding);
  const ChannelGradients found = normalize_channels_gradient(kEpsilon, x, weight, run.mean, run.variance, dy);
  CHECK(found.input.dtype() == dtype);
  check_near(found.input, wanted.gradient, last);
  check_near(found.weight, wanted.weight, rounding);
  check_near(found.bias, wanted.bias, rounding);
}

}  // namespace

TEST_CASE("normalize_channels: equals its formulas, for any planes and types") {
  for (const Shape& shape :
       {Shape{2, 3, 16}, Shape{5, 1, 17}, Shape{3, 4, 7, 7}, Shape{1, 2, 3000}, Shape{4, 3}, Shape{2, 5, 1, 2, 9}})
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
      for (const bool affine : {true, false}) check_against_formulas(shape, dtype, affine, 0.0);
}

TEST_CASE("normalize_channels: long channels are computed in parts") {
  check_against_formulas({14, 1, 70, 70}, DType::f32, true, 0.0);
  check_against_formulas({3, 2, 300, 301}, DType::bf16, true, 0.0);
}

TEST_CASE("normalize_channels: a large mean costs no more than its rounding") {
  check_against_formulas({4, 2, 30, 30}, DType::f32, true, 100.0);
  check_against_formulas({4, 2, 30, 30}, DType::f64, true, 1e4);
  const Array far = noise({4, 1, 64}, DType::f32, 11, 1e4);
  CHECK(normalize_channels(kEpsilon, far).variance.item<float>() ==
        doctest::Approx(expected(far, {1}, {0}, far).variance[0]).epsilon(1e-6));
  const Array same = Array::full({3, 2, 40}, 5.0, DType::f32, cpu());
  const NormalizedChannels run = normalize_channels(kEpsilon, same);
  CHECK(run.output.to_vector<float>() == std::vector<float>(240, 0.0F));
  CHECK(run.variance.to_vector<float>() == std::vector<float>{0, 0});
}

TEST_CASE("normalize_channels: channels are apart, with NaN and infinity, and for any number of threads") {
  const Array long_one = noise({40, 1, 70, 70}, DType::f32, 12);
  const auto results_of_long = [&] {
    const NormalizedChannels run = normalize_channels(kEpsilon, long_one);
    const ChannelGradients found =
        normalize_channels_gradient(kEpsilon, long_one, {}, run.mean, run.variance, long_one);
    return std::vector<std::vector<float>>{run.output.to_vector<float>(), run.variance.to_vector<float>(),
                                           found.input.to_vector<float>(), found.weight.to_vector<float>()};
  };
  const auto long_alone = results_of_long();
  Array x = noise({3, 4, 50}, DType::f32, 5);
  const Array dy = noise({3, 4, 50}, DType::f32, 6);
  const NormalizedChannels alone = normalize_channels(kEpsilon, x);
  const ChannelGradients gradients = normalize_channels_gradient(kEpsilon, x, {}, alone.mean, alone.variance, dy);
  const int before = cpu_threads(cpu());
  set_cpu_threads(cpu(), 3);
  const NormalizedChannels threaded = normalize_channels(kEpsilon, x);
  CHECK(threaded.output.to_vector<float>() == alone.output.to_vector<float>());
  CHECK(normalize_channels_gradient(kEpsilon, x, {}, alone.mean, alone.variance, dy).input.to_vector<float>() ==
        gradients.input.to_vector<float>());
  CHECK(results_of_long() == long_alone);
  set_cpu_threads(cpu(), before);
  x.slice(0, 1, 2).slice(1, 2, 3).slice(2, 7, 8).fill(std::numeric_limits<float>::quiet_NaN());
  x.slice(0, 2, 3).slice(1, 0, 1).slice(2, 9, 10).fill(std::numeric_limits<float>::infinity());
  const NormalizedChannels spoilt = normalize_channels(kEpsilon, x);
  for (std::int64_t c = 0; c < 4; ++c) {
    const auto found = spoilt.output.slice(1, c, c + 1).contiguous().to_vector<float>();
    if (c == 1 || c == 3) CHECK(found == alone.output.slice(1, c, c + 1).contiguous().to_vector<float>());
    if (c == 0 || c == 2) CHECK(std::isnan(found[0]));
  }
}

TEST_CASE("normalize_channels: strided operands, places of gradients, and those that nobody wants") {
  const Array wide = noise({3, 20, 4}, DType::f32, 7);
  const Array x = wide.permute({0, 2, 1});
  const Array dy = noise({3, 4, 20}, DType::f32, 8);
  const NormalizedChannels run = normalize_channels(kEpsilon, x);
  CHECK(run.output.to_vector<float>() == normalize_channels(kEpsilon, x.contiguous()).output.to_vector<float>());
  const Array weight = Array::zeros({4}, DType::f32, cpu());
  const Array bias = Array::zeros({4}, DType::f32, cpu());
  const ChannelGradients all = normalize_channels_gradient(kEpsilon, x, {}, run.mean, run.variance, dy,
                                                           {.weight_place = weight, .bias_place = bias});
  CHECK(all.weight.storage() == weight.storage());
  CHECK(all.bias.storage() == bias.storage());
  const ChannelGradients some =
      normalize_channels_gradient(kEpsilon, x, {}, run.mean, run.variance, dy, {.input = false, .bias = false});
  CHECK_FALSE(some.input.defined());
  CHECK_FALSE(some.bias.defined());
  CHECK(some.weight.to_vector<float>() == weight.to_vector<float>());
}

TEST_CASE("normalize_channels: errors name the operand") {
  const Array x = noise({2, 3, 4}, DType::f32, 9);
  const Array three = noise({3}, DType::f32, 10);
  CHECK_THROWS_WITH_AS(normalize_channels(kEpsilon, noise({3}, DType::f32, 1)),
                       doctest::Contains("[normalize_channels]"), ShapeError);
  CHECK_THROWS_AS(normalize_channels(kEpsilon, noise({2, 0, 4}, DType::f32, 1)), ShapeError);
  CHECK_THROWS_AS(normalize_channels(kEpsilon, x.cast(DType::i64)), DTypeError);
  CHECK_THROWS_WITH_AS(normalize_channels(kEpsilon, x, noise({2}, DType::f32, 1)), doctest::Contains("the weight"),
                       ShapeError);
  CHECK_THROWS_AS(normalize_channels(kEpsilon, x, three, three.cast(DType::f64)), DTypeError);
  CHECK_THROWS_WITH_AS(normalize_channels_gradient(kEpsilon, x, three, three, three, noise({2, 3, 5}, DType::f32, 1)),
                       doctest::Contains("the gradient"), ShapeError);
}

TEST_SUITE_END();
