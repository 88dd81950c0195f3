// SPDX-License-Identifier: Apache-2.0
// Numbers near the ends of 64 bits where sizes are made of them: what they are refused with, and what is right where
// they have a meaning. Every operation's arguments are tried in tests/references/extreme_integers_test.cpp.
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/error_text.h>

#include <doctest/doctest.h>

#include <limits>

namespace tutti {
namespace {

using testing::error_of;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHuge = std::int64_t{1} << 62;

Tensor zeros_here(const Shape& shape) { return Tensor(Array::zeros(shape, DType::f32, test_device())); }

TEST_CASE("extreme sizes: padding") {
  const Tensor x = zeros_here({2, 3});
  const std::string overflows = "[pad] widths 1, 9223372036854775807 of axis 0: the size overflows 64 bits";
  CHECK(error_of([&] { pad(x, {{1, kMost}, {0, 0}}); }).starts_with(overflows));
  for (const PaddingMode mode : {PaddingMode::reflect, PaddingMode::replicate, PaddingMode::circular})
    CHECK(error_of([&] { pad(x, {{1, kMost}, {0, 0}}, mode); }).starts_with(overflows));
  CHECK(error_of([&] { pad(x, {{kHuge, kHuge}, {0, 0}}); }).find("overflows") != std::string::npos);
  CHECK(error_of([&] { pad(x, {{kHuge, 0}, {0, 0}}); }).starts_with("[pad] shape [4611686018427387906, 3]: the size"));
}

TEST_CASE("extreme sizes: windows") {
  const Tensor sequence = zeros_here({1, 1, 5});
  const Tensor image = zeros_here({1, 1, 5, 5});
  const Tensor volume = zeros_here({1, 1, 3, 3, 3});
  const Tensor kernel = zeros_here({1, 1, 3});
  CHECK(error_of([&] {
          conv1d(sequence, kernel, {}, {.padding = kHuge});
        }).starts_with("[conv1d] an axis of 5 with padding 4611686018427387904: the size overflows 64 bits"));
  CHECK(error_of([&] {
          conv1d(sequence, kernel, {}, {.dilation = kHuge});
        }).starts_with("[conv1d] a kernel of 3 with dilation 4611686018427387904: the size overflows 64 bits"));
  CHECK(error_of([&] {
          conv2d(image, zeros_here({1, 1, 2, 2}), {}, {.padding = {kHuge / 2, 0}, .dilation = {kMost, 1}});
        }).starts_with("[conv2d] a kernel of 2 with dilation 9223372036854775807: the size overflows"));
  const std::int64_t wide = std::int64_t{1} << 40;  // of each axis
  CHECK(error_of([&] {
          conv2d(image, zeros_here({1, 1, 2, 2}), {}, {.stride = {wide, wide}, .padding = {wide, wide}});
        }).starts_with("[conv2d] 1 channels of 5 x 5 elements with padding 1099511627776 x 1099511627776: the size"));
  CHECK(error_of([&] {
          conv3d(volume, volume, {}, {.padding = {kHuge, 0, 0}});
        }).find("overflows") != std::string::npos);
  CHECK(error_of([&] { conv_transpose1d(sequence, kernel, {}, {.stride = kHuge}); }).find("overflows") !=
        std::string::npos);
  CHECK(error_of([&] {
          conv_transpose3d(volume, volume, {}, {.padding = {0, 0, kMost}});
        }).find("overflows") != std::string::npos);
  CHECK(error_of([&] { max_pool1d(sequence, {.kernel = kMost, .stride = 1, .padding = kHuge - 1}); }) ==
        "[max_pool1d] an axis of 5 with padding 4611686018427387903: the size overflows 64 bits; operands: f32 [1, 1, "
        "5]");
  CHECK(error_of([&] {
          avg_pool2d(image, {.kernel = {kHuge, 4}, .padding = {kHuge / 2, 2}});
        }).starts_with("[avg_pool2d] a window of 4611686018427387904 x 4: the size overflows"));
  CHECK(error_of([&] {
          max_pool3d(volume, {.kernel = {1, kMost, 1}, .padding = {0, kHuge - 1, 0}});
        }).find("overflows") != std::string::npos);
}

TEST_CASE("extreme sizes: strides beyond what is padded leave one window") {
  const Tensor ones_of = zeros_here({1, 2, 5}) + 1;
  const Tensor kernel = zeros_here({2, 1, 3}) + 1;  // of groups, and of all channels together
  for (const std::int64_t groups : {std::int64_t{2}, std::int64_t{1}}) {
    const Tensor weight = groups == 2 ? kernel : zeros_here({2, 2, 3}) + 1;
    const Tensor y = conv1d(ones_of, weight, {}, {.stride = kMost, .padding = 1, .groups = groups});
    CHECK(y.shape() == Shape{1, 2, 1});
    CHECK(y.to_vector<float>() == std::vector<float>(2, groups == 2 ? 2.0F : 4.0F));
  }
  CHECK(max_pool1d(ones_of, {.kernel = 3, .stride = kMost}).shape() == Shape{1, 2, 1});
  CHECK(avg_pool1d(ones_of, {.kernel = 3, .stride = kMost}).to_vector<float>() == std::vector<float>(2, 1.0F));
}

TEST_CASE("extreme sizes: pooling to a size, and resizing") {
  const Tensor x = zeros_here({1, 1, 5});
  CHECK(error_of([&] {
          adaptive_avg_pool1d(x, kMost);
        }).starts_with("[adaptive_avg_pool1d] size 9223372036854775807 of 5: the size overflows 64 bits"));
  CHECK(error_of([&] { adaptive_max_pool1d(x, kHuge / 4); }).starts_with("[memory] "));
  CHECK(error_of([&] {
          interpolate(x, {.size = {kMost}});
        }).starts_with("[interpolate] axis 2 of [1, 1, 5] to 9223372036854775807 elements: the size overflows"));
  CHECK(error_of([&] {
          interpolate(x, {.size = {2}, .scale = {2.0, 3.0}});
        }).starts_with("[interpolate] size [2] and factors 2, 3 are both given: one of them is needed"));
  CHECK(error_of([&] { interpolate(x, {}); }).starts_with("[interpolate] a size or factors are needed"));
}

TEST_CASE("extreme sizes: diagonals and shifts mean what they say") {
  const Tensor x = constant({1, 2, 3, 4, 5, 6}, {2, 3});
  const Values all = x.to_vector<double>();
  const Values none(6, 0.0);
  CHECK(triu(x, kLeast).to_vector<double>() == all);
  CHECK(triu(x, kMost).to_vector<double>() == none);
  CHECK(tril(x, kLeast).to_vector<double>() == none);
  CHECK(tril(x, kMost).to_vector<double>() == all);
  for (const std::int64_t offset : {kLeast, kLeast + 1, kMost, std::int64_t{3}, std::int64_t{-2}})
    CHECK(diagonal(x, offset).shape() == Shape{0});
  // 2^63 = 2 mod 3
  CHECK(roll(x, kLeast, 1).to_vector<double>() == roll(x, -2, 1).to_vector<double>());
  CHECK(roll(x, kMost, 1).to_vector<double>() == roll(x, 1, 1).to_vector<double>());
  CHECK(roll(x, kLeast).to_vector<double>() == roll(x, -2).to_vector<double>());  // 2^63 = 2 mod 6
}

TEST_CASE("extreme sizes: repeats, shuffles, parts and encodings") {
  const Tensor x = zeros_here({4, 2, 3});
  CHECK(error_of([&] {
          tile(x, {kMost});
        }).starts_with("[tile] [9223372036854775807] repeats of [4, 2, 3]: the size overflows 64 bits"));
  CHECK(error_of([&] {
          repeat_interleave(x, kHuge, 0);
        }).starts_with("[repeat_interleave] 4611686018427387904 repeats along axis 0 of [4, 2, 3]: the size"));
  CHECK(error_of([&] { pixel_shuffle(zeros_here({0, 2, 3}), kMost); }).find("overflows") != std::string::npos);
  CHECK(error_of([&] { pixel_unshuffle(zeros_here({4, 0, 0}), kMost); }).find("overflows") != std::string::npos);
  CHECK(error_of([&] { group_norm(zeros_here({4, 0}), kMost); }).find("overflows") != std::string::npos);
  const Tensor five = zeros_here({5});
  CHECK(error_of([&] { split(five, {7, -2}); }).starts_with("[split] lengths [7, -2]: -2 is negative"));
  CHECK(error_of([&] {
          split(five, {kMost, kMost, 7});
        }).starts_with("[split] the sum of 3 lengths: the size overflows"));
  CHECK(error_of([&] { one_hot(index({0}, {1}), -1); }).starts_with("[one_hot] -1 classes: they must not be negative"));
  CHECK(error_of([&] {
          reshape(zeros_here({0, 3}), {-1, 0});
        }).starts_with("[reshape] shape [-1, 0] leaves a length open that may be any, as [0, 3] has no elements"));
}

TEST_CASE("extreme sizes: memory that no machine has names who needs it") {
  const TensorOptions here{.device = test_device()};
  CHECK(error_of([&] { zeros({kHuge}, here); }).find(", which zeros needs") != std::string::npos);
  CHECK(error_of([&] {
          zeros({kHuge, 4}, here);
        }) == "[zeros] shape [4611686018427387904, 4]: the size overflows 64 bits");
  CHECK(error_of([&] { eye(kHuge, 1, here); }).find(", which eye needs") != std::string::npos);
  CHECK(error_of([&] { linspace(0, 1, kMost, here); }).find(", which linspace needs") != std::string::npos);
  CHECK(error_of([&] { arange(kLeast, kMost, 1, here); }).find(", which arange needs") != std::string::npos);
  Generator random(1);
  CHECK(error_of([&] { permutation(kMost, random, test_device()); }).find(", which permutation needs") !=
        std::string::npos);
  CHECK(error_of([&] { uniform({-1}, random, here); }) == "[uniform] negative length in shape [-1]");
}

TEST_CASE("extreme sizes: empty tensors of lengths whose product overflows are refused, as by NumPy") {
  CHECK_THROWS_AS(zeros_here({0, kHuge, 4}), ShapeError);
  const Tensor x = zeros_here({0, std::int64_t{1} << 40, 4});
  CHECK(slice(x, 1, (std::int64_t{1} << 40) - 1, std::int64_t{1} << 40).shape() == Shape{0, 1, 4});
}

TEST_CASE("unknown enumerators are refused, not taken for another") {
  const Tensor x = zeros_here({1, 2, 3});
  const Tensor places(Array::zeros({1, 2, 3}, DType::i64, test_device()));
  const auto unknown = [](const auto& f, const std::string& operation, const std::string& type) {
    const std::string error = error_of(f);
    INFO(error);
    CHECK(error.starts_with("[" + operation + "] 99 is no " + type));
  };
  unknown([&] { cast(x, static_cast<DType>(99)); }, "cast", "DType");
  unknown([&] { zeros({2}, {.dtype = static_cast<DType>(99), .device = test_device()}); }, "zeros", "DType");
  unknown([&] { pad(x, {{0, 0}, {0, 0}, {1, 1}}, static_cast<PaddingMode>(99)); }, "pad", "PaddingMode");
  unknown([&] { interpolate(x, {.size = {7}, .mode = static_cast<Interpolation>(99)}); }, "interpolate",
          "Interpolation");
  unknown([&] { scatter(x, 2, places, x, static_cast<Scatter>(99)); }, "scatter", "Scatter");
  unknown([&] { fft({x}, {.norm = static_cast<FourierNorm>(99)}); }, "fft", "FourierNorm");
  unknown([&] { meshgrid({zeros_here({2})}, static_cast<MeshOrder>(99)); }, "meshgrid", "MeshOrder");
  unknown(
      [&] {
        linear(zeros_here({1, 2}), zeros_here({3, 2}), {}, static_cast<LinearActivation>(99));
      },
      "linear", "LinearActivation");
  unknown(
      [&] {
        grid_sample(zeros_here({1, 1, 2, 2}), zeros_here({1, 1, 1, 2}), {.padding = static_cast<GridPadding>(99)});
      },
      "grid_sample", "GridPadding");
}

}  // namespace
}  // namespace tutti
