// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/operators/operator_call.h>

#include <algorithm>
#include <cmath>

namespace tutti::onnx {

namespace {

using Call = OperatorCall;

Interpolation interpolation_of(const Call& call, const std::string& mode) {
  if (mode == "nearest") return Interpolation::nearest;
  if (mode == "linear" || mode == "bilinear") return Interpolation::linear;
  if (mode == "cubic" || mode == "bicubic") return Interpolation::cubic;
  call.refuse("mode is '" + mode + "'");
}

/// What becomes of one axis, by arithmetic in f32 as ONNX Runtime's, since factors are f32: the standard says neither
/// how a length is rounded nor how a place is. Lengths are below 2^24, which f32 has exactly.
struct ResizedAxis {
  std::int64_t axis;
  std::int64_t length;
  std::int64_t next;  // length of the result
  float factor;
  bool is_whole;  // length times factor is `next`, not cut

  float place(const Call& call, const std::string& rule, std::int64_t i) const {
    const auto at = static_cast<float>(i);
    if (rule == "asymmetric") return at / factor;
    if (rule == "half_pixel") return (at + 0.5F) / factor - 0.5F;
    if (rule == "pytorch_half_pixel") return next > 1 ? (at + 0.5F) / factor - 0.5F : 0.0F;
    if (rule == "align_corners")
      return next > 1 ? at * static_cast<float>(length - 1) / static_cast<float>(next - 1) : 0.0F;
    call.refuse("coordinate_transformation_mode is '" + rule + "'");
  }
};

/// The element nearest to a place; `simple` is the rule before opset 11.
float nearest_of(const Call& call, const std::string& rule, float place, bool shrinks) {
  if (rule == "round_prefer_floor") return std::ceil(place - 0.5F);
  if (rule == "round_prefer_ceil") return std::floor(place + 0.5F);
  if (rule == "floor") return std::floor(place);
  if (rule == "ceil") return std::ceil(place);
  if (rule == "simple") return shrinks ? std::ceil(place) : std::trunc(place);
  call.refuse("nearest_mode is '" + rule + "'");
}

std::vector<ResizedAxis> resized_axes(const Call& call, std::size_t scales_input, std::size_t sizes_input) {
  const Tensor& x = call.in(0);
  const bool is_upsample = sizes_input == 0;
  const bool has_sizes = !is_upsample && call.has(sizes_input) && call.in(sizes_input).size() > 0;
  const Integers sizes = has_sizes ? call.values(sizes_input) : Integers();
  std::vector<double> factors = is_upsample && call.opset() < 9 ? call.numbers("scales") : std::vector<double>();
  if (!has_sizes && factors.empty()) factors = host_numbers(call.in(scales_input));
  const auto axes = call.integers("axes");
  const std::size_t told = has_sizes ? sizes.size() : factors.size();
  if (told != (axes ? axes->size() : x.rank())) call.refuse("scales or sizes are not one for each axis");
  std::vector<ResizedAxis> all;
  for (std::size_t i = 0; i < told; ++i) {
    const std::int64_t axis = call.from_front(axes ? (*axes)[i] : static_cast<std::int64_t>(i), x.dim());
    const std::int64_t length = x.length(axis);
    if (has_sizes ? sizes[i] == length : factors[i] == 1.0) continue;
    const auto from = static_cast<float>(length);
    const float factor = has_sizes ? static_cast<float>(sizes[i]) / from : static_cast<float>(factors[i]);
    const float exact = has_sizes ? static_cast<float>(sizes[i]) : factor * from;
    const float next = std::floor(exact);
    if (!(factor > 0.0F && from >= 1.0F && from < 0x1p24F && next >= 1.0F && next < 0x1p24F))
      call.refuse("axis " + std::to_string(axis) + " of length " + std::to_string(length) + " would have " +
                  std::to_string(next));
    all.push_back({axis, length, static_cast<std::int64_t>(next), factor, exact == next});
  }
  return all;
}

/// Linear and cubic, of the axes behind the channels.
Tensor interpolated(const Call& call, Interpolation mode, const std::string& rule,
                    const std::vector<ResizedAxis>& axes) {
  const Tensor& x = call.in(0);
  if (x.dim() < 3 || x.dim() > 5) call.refuse("an input of three to five axes is needed");
  const bool aligns = rule == "align_corners";
  if (!aligns && rule != "half_pixel" && rule != "pytorch_half_pixel")
    call.refuse("coordinate_transformation_mode is '" + rule + "'");
  const bool is_whole = std::ranges::all_of(axes, &ResizedAxis::is_whole);
  if (aligns && !is_whole) call.refuse("align_corners with factors that give no whole length");
  InterpolateOptions options{.mode = mode, .align_corners = aligns};
  for (std::int64_t i = 2; is_whole && i < x.dim(); ++i) options.size.push_back(x.length(i));
  if (!is_whole) options.scale.assign(x.rank() - 2, 1.0);
  for (const ResizedAxis& each : axes) {
    if (each.axis < 2) call.refuse("resizing along batch or channels by interpolation");
    if (rule == "pytorch_half_pixel" && each.next == 1) call.refuse("pytorch_half_pixel to a length of 1");
    const auto behind = static_cast<std::size_t>(each.axis) - 2;
    if (is_whole) {
      options.size[behind] = each.next;
      continue;
    }
    // Where `interpolate`, which computes in f64, would make another length, or leave the axis as it is.
    const double length = std::floor(static_cast<double>(each.factor) * static_cast<double>(each.length));
    if (length != static_cast<double>(each.next) || (each.next == each.length && mode != Interpolation::cubic))
      call.refuse("factor " + std::to_string(each.factor) + " of length " + std::to_string(each.length));
    options.scale[behind] = each.factor;
  }
  return interpolate(x, options);
}

Tensors resized(const Call& call, std::size_t scales_input, std::size_t sizes_input) {
  const std::string mode = call.text("mode", "nearest");
  const bool is_old = sizes_input == 0 || call.opset() < 11;
  const std::string places = is_old ? "asymmetric" : call.text("coordinate_transformation_mode", "half_pixel");
  const std::string nearest = is_old ? "simple" : call.text("nearest_mode", "round_prefer_floor");
  if (call.number("cubic_coeff_a", -0.75) != -0.75 || call.integer("exclude_outside", 0) != 0 ||
      call.integer("antialias", 0) != 0 || call.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    call.refuse("resizing with antialias, exclude_outside, another cubic_coeff_a, or kept proportions");
  (void)call.number("extrapolation_value", 0.0);
  const std::vector<ResizedAxis> axes = resized_axes(call, scales_input, sizes_input);
  const Interpolation kind = interpolation_of(call, mode);
  if (kind != Interpolation::nearest) return {axes.empty() ? call.in(0) : interpolated(call, kind, places, axes)};
  Tensor y = call.in(0);
  for (const ResizedAxis& each : axes) {
    Integers chosen;
    for (std::int64_t i = 0; i < each.next; ++i) {
      const float place = nearest_of(call, nearest, each.place(call, places, i), each.factor < 1.0F);
      chosen.push_back(static_cast<std::int64_t>(std::clamp(place, 0.0F, static_cast<float>(each.length - 1))));
    }
    y = take(y, Tensor(Array::from(chosen, {each.next}, y.device())), each.axis);
  }
  return {y};
}

Tensors grid_sampled(const Call& call) {
  GridSampleOptions options{.mode = interpolation_of(call, call.text("mode", "linear"))};
  const std::string padding = call.text("padding_mode", "zeros");
  if (padding == "border")
    options.padding = GridPadding::border;
  else if (padding == "reflection")
    options.padding = GridPadding::reflection;
  else if (padding != "zeros")
    call.refuse("padding_mode is '" + padding + "'");
  options.align_corners = call.integer("align_corners", 0) != 0;
  return {grid_sample(call.in(0), call.in(1), options)};
}

constexpr OperatorEntry kOperators[] = {
    {"GridSample", grid_sampled},
    {"Resize", [](const Call& call) { return call.opset() < 11 ? resized(call, 1, 9) : resized(call, 2, 3); }},
    {"Upsample", [](const Call& call) { return resized(call, 1, 0); }},
};

}  // namespace

std::span<const OperatorEntry> resizing_operators() { return kOperators; }

}  // namespace tutti::onnx
