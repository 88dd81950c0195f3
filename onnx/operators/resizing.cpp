// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/operators/operator_call.h>

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

/// Whether an axis that is longer becomes 1 long, whose place PyTorch has changed.
bool has_single(const Shape& length, const InterpolateOptions& options) {
  for (std::size_t i = 0; i < length.size(); ++i) {
    const std::int64_t next = options.scale.empty()
                                  ? options.size[i]
                                  : static_cast<std::int64_t>(static_cast<double>(length[i]) * options.scale[i]);
    if (next == 1 && (options.scale.empty() || length[i] > 1)) return true;
  }
  return false;
}

Tensors resized(const Call& call, std::size_t scales_input, std::size_t sizes_input) {
  const Tensor& x = call.in(0);
  const std::string mode = call.text("mode", "nearest");
  const bool is_upsample = sizes_input == 0;
  const bool is_old = is_upsample || call.opset() < 11;  // which had Upsample's rule
  if (x.dim() < 3 || x.dim() > 5) call.refuse("an input of three to five axes is needed");
  const std::string places = is_old ? "asymmetric" : call.text("coordinate_transformation_mode", "half_pixel");
  const std::string nearest = is_old ? "floor" : call.text("nearest_mode", "round_prefer_floor");
  if (call.number("cubic_coeff_a", -0.75) != -0.75 || call.integer("exclude_outside", 0) != 0 ||
      call.integer("antialias", 0) != 0 || call.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    call.refuse("resizing with antialias, exclude_outside, another cubic_coeff_a, or kept proportions");
  (void)call.number("extrapolation_value", 0.0);
  InterpolateOptions options{.mode = interpolation_of(call, mode)};
  const auto axes = call.integers("axes");
  const std::size_t count = x.rank() - 2;
  options.scale.assign(count, 1.0);
  const bool has_sizes = !is_upsample && call.has(sizes_input) && call.in(sizes_input).size() > 0;
  std::vector<double> factors = is_upsample && call.opset() < 9 ? call.numbers("scales") : std::vector<double>();
  if (!has_sizes && factors.empty()) factors = call.in(scales_input).to(cpu()).cast(DType::f64).to_vector<double>();
  Shape size;
  for (std::int64_t i = 2; i < x.dim(); ++i) size.push_back(x.length(i));
  const std::size_t told = has_sizes ? static_cast<std::size_t>(call.in(sizes_input).size()) : factors.size();
  const Integers sizes = has_sizes ? call.values(sizes_input) : Integers();
  if (told != (axes ? axes->size() : x.rank())) call.refuse("scales or sizes are not one for each axis");
  for (std::size_t i = 0; i < told; ++i) {
    const std::int64_t axis = call.from_front(axes ? (*axes)[i] : static_cast<std::int64_t>(i), x.dim());
    const bool stays = has_sizes ? sizes[i] == x.length(axis) : factors[i] == 1.0;
    if (axis < 2) {
      if (!stays) call.refuse("resizing along batch or channels");
      continue;
    }
    const auto behind = static_cast<std::size_t>(axis) - 2;
    if (has_sizes)
      size[behind] = sizes[i];
    else
      options.scale[behind] = factors[i];
    // An axis whose length stays is left as it is by interpolate, whatever the factor.
    if (!has_sizes && !stays && options.mode != Interpolation::cubic &&
        std::floor(factors[i] * static_cast<double>(x.length(axis))) == static_cast<double>(x.length(axis)))
      call.refuse("a factor that leaves a length as it is");
  }
  if (has_sizes) {
    options.scale.clear();
    options.size = size;
  }
  if (options.mode == Interpolation::nearest) {
    if (places == "half_pixel" && nearest == "round_prefer_ceil")
      options.mode = Interpolation::nearest_exact;
    else if (places != "asymmetric" || nearest != "floor")
      call.refuse("nearest elements by " + places + " and " + nearest);
  } else if (places == "align_corners") {
    for (std::size_t i = 0; i < options.scale.size(); ++i) {
      const double length = options.scale[i] * static_cast<double>(size[i]);
      if (std::abs(length - std::round(length)) > 1e-4)
        call.refuse("align_corners with factors that give no whole length");
    }
    options.align_corners = true;
  } else if (places == "pytorch_half_pixel" && has_single(size, options)) {
    call.refuse("pytorch_half_pixel to a length of 1");
  } else if (places != "half_pixel" && places != "pytorch_half_pixel") {
    call.refuse("coordinate_transformation_mode is '" + places + "'");
  }
  return {interpolate(x, options)};
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
