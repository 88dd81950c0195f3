// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/error_text.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;
using testing::error_of;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor line(const Values& values) { return constant(values, {1, 1, static_cast<std::int64_t>(values.size())}); }

TEST_CASE("interpolate: by hand") {
  const Tensor x = line({1, 2, 5});
  const auto resized = [&](const InterpolateOptions& options) { return interpolate(x, options).to_vector<double>(); };
  CHECK(resized({.size = {6}}) == Values{1, 1, 2, 2, 5, 5});
  CHECK(resized({.size = {2}}) == Values{1, 2});
  CHECK(resized({.size = {2}, .mode = Interpolation::nearest_exact}) == Values{1, 5});
  CHECK(resized({.size = {6}, .mode = Interpolation::linear}) == Values{1, 1.25, 1.75, 2.75, 4.25, 5});
  CHECK(resized({.size = {5}, .mode = Interpolation::linear, .align_corners = true}) == Values{1, 1.5, 2, 3.5, 5});
  CHECK(resized({.size = {1}, .mode = Interpolation::linear, .align_corners = true}) == Values{1});
  CHECK(resized({.size = {2}, .mode = Interpolation::area}) == Values{1.5, 3.5});
  CHECK(resized({.scale = {1.5}}) == Values{1, 1, 2, 5});
  CHECK(resized({.size = {3}, .mode = Interpolation::cubic}) == Values{1, 2, 5});
}

TEST_CASE("interpolate: positions are exact, and an infinity is read where it is alone") {
  // 49 * (2 / 98) is less than 1 in f64.
  Values expected(98, 1.0);
  std::fill(expected.begin() + 49, expected.end(), 2.0);
  CHECK(interpolate(line({1, 2}), {.size = {98}}).to_vector<double>() == expected);
  Values counted(98);
  std::iota(counted.begin(), counted.end(), 0.0);
  const auto third =
      interpolate(line(counted), {.size = {294}, .mode = Interpolation::nearest_exact}).to_vector<double>();
  for (std::size_t i = 0; i < third.size(); ++i) CHECK(third[i] == static_cast<double>(i / 3));
  const auto far = interpolate(line({1, 2, 3, 4, kInfinity}), {.size = {4}, .mode = Interpolation::linear});
  CHECK(far.to_vector<double>() == Values{1.125, 2.375, 3.625, kInfinity});
}

TEST_CASE("interpolate: gradients in every mode, of one to three axes, and of no images") {
  for (const Interpolation mode : {Interpolation::nearest, Interpolation::nearest_exact, Interpolation::linear,
                                   Interpolation::cubic, Interpolation::area}) {
    const auto up = [&](const Inputs& in) { return interpolate(square(in[0]), {.size = {7, 3}, .mode = mode}); };
    CHECK_NOTHROW(check_gradients(up, {spread({1, 2, 4, 5}, 1)}));
    CHECK_NOTHROW(check_gradients(up, {spread({0, 2, 4, 5}, 1)}));
    const auto by = [&](const Inputs& in) { return interpolate(square(in[0]), {.scale = {1.6}, .mode = mode}); };
    CHECK_NOTHROW(check_gradients(by, {spread({1, 2, 4}, 1)}));
    CHECK_NOTHROW(check_gradients(by, {spread({1, 1, 2, 3, 2}, 1)}));
  }
}

TEST_CASE("interpolate: what does not fit is named") {
  const Tensor x = spread({1, 2, 4, 4}, 1);
  const auto fails = [&](const InterpolateOptions& options) { return error_of([&] { interpolate(x, options); }); };
  CHECK(fails({}).starts_with("[interpolate] a size or factors are needed; operands: f64 [1, 2, 4, 4]"));
  CHECK(fails({.size = {2, 2}, .scale = {2}}).starts_with("[interpolate] size [2, 2] and factors 2 are both given"));
  CHECK(fails({.size = {2}}).starts_with("[interpolate] 1 sizes for the 2 axes behind the channels of [1, 2, 4, 4]"));
  CHECK(fails({.scale = {2, 2, 2}}).starts_with("[interpolate] 3 factors for the 2 axes"));
  CHECK(fails({.size = {2, 0}}).starts_with("[interpolate] axis 3 of [1, 2, 4, 4] to 0 elements"));
  CHECK(fails({.scale = {-1}}).starts_with("[interpolate] factor -1"));
  CHECK(fails({.scale = {std::nan("")}}).starts_with("[interpolate] factor nan"));
  CHECK(fails({.size = {2, 2}, .align_corners = true}).starts_with("[interpolate] align_corners"));
  CHECK(error_of([&] { interpolate(spread({4, 4}, 1), {.size = {2}}); }).find("not [4, 4]") != std::string::npos);
}

TEST_CASE("grid_sample: the grid of the image's own places, and what lies beyond") {
  const Tensor x = constant({1, 2, 3, 4, 5, 6}, {1, 1, 2, 3});
  const Tensor own = constant({-1, -1, 0, -1, 1, -1, -1, 1, 0, 1, 1, 1}, {1, 2, 3, 2});
  CHECK(grid_sample(x, own, {.align_corners = true}).to_vector<double>() == x.to_vector<double>());
  CHECK(grid_sample(x, own, {.mode = Interpolation::cubic, .align_corners = true}).to_vector<double>() ==
        x.to_vector<double>());
  const Tensor beyond = constant({-1, -1, 9, 9, kInfinity, 0, std::nan(""), std::nan("")}, {1, 1, 4, 2});
  CHECK(grid_sample(x, beyond).to_vector<double>() == Values{0.25, 0, 0, 0.25});
  CHECK(grid_sample(zeros({1, 0, 2, 2}), zeros({1, 4, 3, 2})).shape() == Shape{1, 0, 4, 3});
  const Tensor finite = constant({-1, -1, 9, 9}, {1, 1, 2, 2});
  CHECK(grid_sample(x, finite, {.padding = GridPadding::border}).to_vector<double>() == Values{1, 6});
  CHECK(grid_sample(x, finite, {.padding = GridPadding::reflection}).to_vector<double>() == Values{1, 6});
}

TEST_CASE("grid_sample: an infinity that is not read stays where it is") {
  const Tensor x = constant({kInfinity, 2, 3, 4}, {1, 1, 2, 2});
  const Tensor grid = constant({1, 1, 3, 3}, {1, 1, 2, 2});
  CHECK(grid_sample(x, grid, {.align_corners = true}).to_vector<double>() == Values{4, 0});
}

TEST_CASE("grid_sample: gradients of images and grid, in every mode, and of no images") {
  const Tensor grid = leaf({-0.83, 0.31, 0.47, -1.13, 0.69, 1.29, -1.41, -0.27}, {1, 2, 2, 2});
  const Tensor none = leaf({}, {0, 2, 2, 2});
  for (const Interpolation mode : {Interpolation::nearest, Interpolation::linear, Interpolation::cubic})
    for (const GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
      const auto f = [&](const Inputs& in) { return grid_sample(in[0], in[1], {mode, padding}); };
      const Tensor own = mode == Interpolation::nearest ? grid.detach() : grid;
      for (const std::int64_t side : {3, 2})  // fewer places than pixels, and as many
        CHECK_NOTHROW(check_gradients(f, {spread({1, 2, side, side}, 1), own}));
      CHECK(grid_sample(spread({0, 2, 3, 3}, 1), none, {mode, padding}).shape() == Shape{0, 2, 2, 2});
    }
}

TEST_CASE("grid_sample: what does not fit is named") {
  const Tensor x = spread({1, 2, 4, 4}, 1);
  CHECK(error_of([&] {
          grid_sample(x, spread({2, 3, 3, 2}, 1));
        }).starts_with("[grid_sample] grid [2, 3, 3, 2] does not fit [1, 2, 4, 4]: [n, ..., 2] is needed"));
  CHECK(error_of([&] { grid_sample(x, spread({1, 3, 3, 3}, 1)); }).find("[n, ..., 2]") != std::string::npos);
  CHECK(error_of([&] {
          grid_sample(x, spread({1, 3, 3, 2}, 1), {.mode = Interpolation::area});
        }).starts_with("[grid_sample] the mode"));
  CHECK(error_of([&] {
          grid_sample(cast(x, DType::i64), spread({1, 3, 3, 2}, 1));
        }).starts_with("[grid_sample] takes floating types, not i64 and f64"));
}

TEST_CASE("pixel_shuffle and pixel_unshuffle: order, and each the other's inverse") {
  const Tensor x = constant({1, 2, 3, 4, 5, 6, 7, 8}, {4, 1, 2});
  CHECK(pixel_shuffle(x, 2).to_vector<double>() == Values{1, 3, 2, 4, 5, 7, 6, 8});
  const Tensor images = spread({2, 8, 3, 2}, 1);
  CHECK(pixel_unshuffle(pixel_shuffle(images, 2), 2).to_vector<double>() == images.to_vector<double>());
  CHECK(error_of([&] { pixel_shuffle(images, 3); }).starts_with("[pixel_shuffle] factor 3"));
  CHECK(
      error_of([&] { pixel_shuffle(images, std::int64_t{1} << 32); }).starts_with("[pixel_shuffle] factor 4294967296"));
  CHECK(error_of([&] { pixel_unshuffle(images, 2); }).starts_with("[pixel_unshuffle] factor 2 must divide"));
  CHECK(error_of([&] { pixel_shuffle(images, 0); }).find("at least 1") != std::string::npos);
}

TEST_CASE("pad: mirrored, repeated and circular, further than it is long too") {
  const Tensor x = constant({1, 2, 3}, {3});
  const auto padded = [&](PaddingMode mode) { return pad(x, {{4, 3}}, mode).to_vector<double>(); };
  CHECK(padded(PaddingMode::reflect) == Values{1, 2, 3, 2, 1, 2, 3, 2, 1, 2});
  CHECK(padded(PaddingMode::replicate) == Values{1, 1, 1, 1, 1, 2, 3, 3, 3, 3});
  CHECK(padded(PaddingMode::circular) == Values{3, 1, 2, 3, 1, 2, 3, 1, 2, 3});
  CHECK(pad(constant({7}, {1}), {{1, 2}}, PaddingMode::reflect).to_vector<double>() == Values(4, 7.0));
  for (const PaddingMode mode : {PaddingMode::reflect, PaddingMode::replicate, PaddingMode::circular}) {
    const auto f = [&](const Inputs& in) { return pad(square(in[0]), {{0, 0}, {2, 1}, {0, 5}}, mode); };
    CHECK_NOTHROW(check_gradients(f, {spread({2, 3, 2}, 1)}));
  }
  CHECK(error_of([&] { pad(x, {{1, 1}, {1, 1}}, PaddingMode::reflect); }).starts_with("[pad] 2 pairs of widths"));
  CHECK(error_of([&] { pad(x, {{-1, 1}}, PaddingMode::reflect); }).starts_with("[pad] widths -1, 1"));
  CHECK(error_of([&] {
          pad(constant({}, {0}), {{1, 1}}, PaddingMode::circular);
        }).starts_with("[pad] axis 0 of [0] has nothing to repeat"));
}

}  // namespace
}  // namespace tutti
