// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <tutti/autodiff/operations.h>

#include <map>
#include <string>

namespace tutti::testing {
namespace {

Shape size(const Call& c) { return c.attributes.integers("size"); }
std::int64_t factor(const Call& c) { return c.attributes.integer("factor"); }

Interpolation interpolation(const Call& c) {
  static const std::map<std::string, Interpolation> kModes{{"nearest", Interpolation::nearest},
                                                           {"nearest_exact", Interpolation::nearest_exact},
                                                           {"linear", Interpolation::linear},
                                                           {"cubic", Interpolation::cubic},
                                                           {"area", Interpolation::area}};
  return kModes.at(c.attributes.text("mode"));
}
InterpolateOptions resizing(const Call& c) {
  return {size(c), c.attributes.numbers("scale"), interpolation(c), c.attributes.flag("align_corners")};
}
GridSampleOptions sampling(const Call& c) {
  static const std::map<std::string, GridPadding> kPaddings{
      {"zeros", GridPadding::zeros}, {"border", GridPadding::border}, {"reflection", GridPadding::reflection}};
  return {interpolation(c), kPaddings.at(c.attributes.text("padding")), c.attributes.flag("align_corners")};
}
Tensor padded(const Call& c) {
  static const std::map<std::string, PaddingMode> kModes{
      {"reflect", PaddingMode::reflect}, {"replicate", PaddingMode::replicate}, {"circular", PaddingMode::circular}};
  const Axes given = c.attributes.integers("widths");
  std::vector<Padding> widths;
  for (std::size_t i = 0; i + 1 < given.size(); i += 2) widths.push_back({given[i], given[i + 1]});
  return pad(c.x[0], widths, kModes.at(c.attributes.text("mode")));
}

}  // namespace

std::vector<Operation> sampling_operations() {
  return {
      TUTTI_REFERENCE_OF(adaptive_avg_pool1d, adaptive_avg_pool1d, adaptive_avg_pool1d(c.x[0], size(c)[0])),
      TUTTI_REFERENCE_OF(adaptive_avg_pool2d, adaptive_avg_pool2d,
                         adaptive_avg_pool2d(c.x[0], {size(c)[0], size(c)[1]})),
      TUTTI_REFERENCE_OF(adaptive_avg_pool3d, adaptive_avg_pool3d,
                         adaptive_avg_pool3d(c.x[0], {size(c)[0], size(c)[1], size(c)[2]})),
      TUTTI_REFERENCE_OF(adaptive_max_pool1d, adaptive_max_pool1d, adaptive_max_pool1d(c.x[0], size(c)[0])),
      TUTTI_REFERENCE_OF(adaptive_max_pool2d, adaptive_max_pool2d,
                         adaptive_max_pool2d(c.x[0], {size(c)[0], size(c)[1]})),
      TUTTI_REFERENCE_OF(adaptive_max_pool3d, adaptive_max_pool3d,
                         adaptive_max_pool3d(c.x[0], {size(c)[0], size(c)[1], size(c)[2]})),
      TUTTI_REFERENCE_OF(interpolate, interpolate, interpolate(c.x[0], resizing(c))),
      TUTTI_REFERENCE_OF(grid_sample, grid_sample, grid_sample(c.x[0], c.x[1], sampling(c))),
      TUTTI_REFERENCE_OF(pixel_shuffle, pixel_shuffle, pixel_shuffle(c.x[0], factor(c))),
      TUTTI_REFERENCE_OF(pixel_unshuffle, pixel_unshuffle, pixel_unshuffle(c.x[0], factor(c))),
      TUTTI_REFERENCE_OF(pad_mode, pad, padded(c)),
  };
}

}  // namespace tutti::testing
