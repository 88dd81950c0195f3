// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/operators/operator_call.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti::onnx {

namespace {

using Call = OperatorCall;

constexpr std::int64_t kMost = std::int64_t{1} << 40;  // of a length, so that sums of them do not overflow

/// Windows over the axes behind the channels, with what ONNX's attributes mean for this input.
struct Windows {
  Integers kernel;
  Integers stride;
  Integers dilation;
  Integers begin;  ///< padding before each axis
  Integers end;    ///< and behind it

  std::size_t axes() const noexcept { return kernel.size(); }
  bool is_symmetric() const { return begin == end; }
  bool is_dilated() const {
    return std::ranges::any_of(dilation, [](std::int64_t each) { return each != 1; });
  }
  std::int64_t reach(std::size_t axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
};

Windows windows_of(const Call& call, const Tensor& x, Integers kernel) {
  Windows windows;
  windows.kernel = std::move(kernel);
  const std::size_t axes = windows.axes();
  if (x.rank() != axes + 2)
    call.refuse("a kernel of " + std::to_string(axes) + " axes for an input of " + std::to_string(x.rank()));
  windows.stride = call.integers("strides").value_or(Integers(axes, 1));
  windows.dilation = call.integers("dilations").value_or(Integers(axes, 1));
  const Integers pads = call.integers("pads").value_or(Integers(2 * axes, 0));
  if (pads.size() != 2 * axes || windows.stride.size() != axes || windows.dilation.size() != axes)
    call.refuse("pads, strides and dilations do not fit the kernel");
  windows.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  windows.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
  for (const auto* each : {&windows.kernel, &windows.stride, &windows.dilation})
    if (std::ranges::any_of(*each, [](std::int64_t number) { return number < 1 || number > kMost; }))
      call.refuse("lengths, strides and dilations of the kernel have to be above 0");
  if (std::ranges::any_of(pads, [](std::int64_t number) { return number < 0 || number > kMost; }))
    call.refuse("pads below 0");
  const std::string automatic = call.text("auto_pad", "NOTSET");
  if (automatic == "NOTSET") return windows;
  if (automatic != "VALID" && automatic != "SAME_UPPER" && automatic != "SAME_LOWER")
    call.refuse("auto_pad is '" + automatic + "'");
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t length = x.length(static_cast<std::int64_t>(i) + 2);
    const std::int64_t steps = (length + windows.stride[i] - 1) / windows.stride[i];
    const std::int64_t wanted = std::max<std::int64_t>(0, (steps - 1) * windows.stride[i] + windows.reach(i) - length);
    const std::int64_t less = automatic == "VALID" ? 0 : wanted / 2;
    const std::int64_t more = automatic == "VALID" ? 0 : wanted - less;
    windows.begin[i] = automatic == "SAME_LOWER" ? more : less;
    windows.end[i] = automatic == "SAME_LOWER" ? less : more;
  }
  return windows;
}

Tensor with_margin(const Tensor& x, const Integers& begin, const Integers& end, double value) {
  std::vector<Padding> pairs(x.rank());
  for (std::size_t i = 0; i < begin.size(); ++i) pairs[i + 2] = {begin[i], end[i]};
  return is_floating(x.dtype()) ? pad(x, pairs, value) : pad(x, pairs, static_cast<std::int64_t>(value));
}

template <std::size_t axes> AxisNumbers<axes> numbers(const Integers& from) {
  if constexpr (axes == 1) {
    return from[0];
  } else {
    AxisNumbers<axes> to{};
    std::ranges::copy(from, to.begin());
    return to;
  }
}

template <std::size_t axes, Tensor (*convolve)(const Tensor&, const Tensor&, const Tensor&, const ConvGeometry<axes>&)>
Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias, const Windows& windows,
                 std::int64_t groups) {
  return convolve(x, weight, bias,
                  {.stride = numbers<axes>(windows.stride),
                   .padding = numbers<axes>(windows.begin),
                   .dilation = numbers<axes>(windows.dilation),
                   .groups = groups});
}

Tensors convolution(const Call& call) {
  Tensor x = call.in(0);
  const Tensor& weight = call.in(1);
  if (weight.dim() < 3) call.refuse("weights of fewer than three axes");
  const Integers lengths(weight.shape().begin() + 2, weight.shape().end());
  Windows windows = windows_of(call, x, call.integers("kernel_shape").value_or(lengths));
  if (windows.kernel != lengths) call.refuse("kernel_shape is not that of the weights");
  const std::int64_t groups = call.integer("group", 1);
  if (!windows.is_symmetric()) {
    x = with_margin(x, windows.begin, windows.end, 0.0);
    windows.begin.assign(windows.axes(), 0);
  }
  switch (windows.axes()) {
    case 1: return {convolved<1, conv1d>(x, weight, call.optional(2), windows, groups)};
    case 2: return {convolved<2, conv2d>(x, weight, call.optional(2), windows, groups)};
    case 3: return {convolved<3, conv3d>(x, weight, call.optional(2), windows, groups)};
    default: call.refuse("a convolution over " + std::to_string(windows.axes()) + " axes");
  }
}

template <std::size_t axes,
          Tensor (*convolve)(const Tensor&, const Tensor&, const Tensor&, const ConvTransposeGeometry<axes>&)>
Tensor transposed(const Tensor& x, const Tensor& weight, const Tensor& bias, const Windows& windows,
                  const Integers& more, std::int64_t groups) {
  return convolve(x, weight, bias,
                  {.stride = numbers<axes>(windows.stride),
                   .output_padding = numbers<axes>(more),
                   .dilation = numbers<axes>(windows.dilation),
                   .groups = groups});
}

Tensors transposed_convolution(const Call& call) {
  const Tensor& x = call.in(0);
  const Tensor& weight = call.in(1);
  if (weight.dim() < 3) call.refuse("weights of fewer than three axes");
  Integers kernel(weight.shape().begin() + 2, weight.shape().end());
  const std::string automatic = call.text("auto_pad", "NOTSET");
  const auto wanted = call.integers("output_shape");
  (void)call.integers("kernel_shape");
  Windows windows = windows_of(call, x, kernel);
  const std::size_t axes = windows.axes();
  const Integers more = call.integers("output_padding").value_or(Integers(axes, 0));
  if (more.size() != axes || (wanted && wanted->size() != axes && wanted->size() != axes + 2) ||
      std::ranges::any_of(more, [](std::int64_t number) { return number < 0 || number > kMost; }) ||
      (wanted && std::ranges::any_of(*wanted, [](std::int64_t number) { return number < 0 || number > kMost; })))
    call.refuse("output_padding or output_shape does not fit");
  // All of it without padding, which is cut off: also where the two sides differ.
  Tensor y;
  const Integers none(axes, 0);
  const std::int64_t groups = call.integer("group", 1);
  switch (axes) {
    case 1: y = transposed<1, conv_transpose1d>(x, weight, call.optional(2), windows, none, groups); break;
    case 2: y = transposed<2, conv_transpose2d>(x, weight, call.optional(2), windows, none, groups); break;
    case 3: y = transposed<3, conv_transpose3d>(x, weight, call.optional(2), windows, none, groups); break;
    default: call.refuse("a convolution over " + std::to_string(axes) + " axes");
  }
  for (std::size_t i = 0; i < axes; ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 2;
    std::int64_t beyond = more[i];
    if (wanted || automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const std::int64_t target = wanted ? (*wanted)[wanted->size() - axes + i] : x.length(axis) * windows.stride[i];
      beyond = std::max(beyond, target - y.length(axis));
      const std::int64_t total = y.length(axis) + beyond - target;
      const std::int64_t half = total / 2;
      windows.begin[i] = automatic == "SAME_UPPER" ? half : total - half;
      windows.end[i] = total - windows.begin[i];
    }
    const std::int64_t whole = y.length(axis) + beyond;
    if (beyond > 0) {
      // Behind the last window there is the bias alone.
      std::vector<Padding> pairs(y.rank());
      pairs[i + 2] = {0, beyond};
      Tensor outside = pad(y, pairs, 0.0);
      if (call.has(2)) {
        const Tensor line = arange(0, whole, {.dtype = DType::i64, .device = y.device()});
        Shape along(y.rank(), 1);
        along[i + 2] = whole;
        Shape channels(y.rank(), 1);
        channels[1] = call.in(2).size();
        const Tensor last = full({}, y.length(axis), {.dtype = DType::i64, .device = y.device()});
        outside = where(reshape(line, along) >= last, reshape(call.in(2), channels), outside);
      }
      y = outside;
    }
    y = slice(y, axis, windows.begin[i], whole - windows.end[i]);
  }
  return {y};
}

/// Padding behind each axis that lets windows begin up to the last element where sizes are rounded up.
void round_up(const Tensor& x, Windows& windows) {
  for (std::size_t i = 0; i < windows.axes(); ++i) {
    const std::int64_t length = x.length(static_cast<std::int64_t>(i) + 2);
    const std::int64_t room = length + windows.begin[i] + windows.end[i] - windows.reach(i);
    std::int64_t count = (room + windows.stride[i] - 1) / windows.stride[i] + 1;
    if ((count - 1) * windows.stride[i] >= length + windows.begin[i]) --count;  // it would begin in the padding
    windows.end[i] += std::max<std::int64_t>(
        0, (count - 1) * windows.stride[i] + windows.reach(i) - (length + windows.begin[i] + windows.end[i]));
  }
}

/// x as windows: axes of their places, then those of their elements.
Tensor unfolded(Tensor x, const Windows& windows) {
  for (std::size_t i = 0; i < windows.axes(); ++i) {
    x = unfold(x, static_cast<std::int64_t>(i) + 2, windows.reach(i), windows.stride[i]);
    x = slice(x, -1, 0, windows.reach(i), windows.dilation[i]);
  }
  return x;
}

Axes last_axes(std::size_t count) {
  Integers axes;
  for (std::size_t i = 0; i < count; ++i) axes.push_back(-static_cast<std::int64_t>(i) - 1);
  return Axes(axes);
}

Windows pooling_windows(const Call& call, const Tensor& x) {
  const auto kernel = call.integers("kernel_shape");
  if (!kernel || kernel->empty() || kernel->size() > 3) call.refuse("kernel_shape has to have one to three axes");
  Windows windows = windows_of(call, x, *kernel);
  if (call.integer("ceil_mode", 0) != 0) round_up(x, windows);
  return windows;
}

template <std::size_t axes, class Geometry, Tensor (*pool)(const Tensor&, const Geometry&)>
Tensor pooled(const Tensor& x, const Windows& windows) {
  return pool(x, {.kernel = numbers<axes>(windows.kernel), .stride = numbers<axes>(windows.stride)});
}

Tensors max_pool(const Call& call) {
  const Tensor& x = call.in(0);
  if (call.wants(1)) call.refuse("places of the largest elements");
  (void)call.integer("storage_order", 0);
  const Windows windows = pooling_windows(call, x);
  const bool is_real = is_floating(x.dtype());
  const Tensor whole = is_real ? x : cast(x, DType::f32);  // 8 bits
  const Tensor y = with_margin(whole, windows.begin, windows.end, -std::numeric_limits<double>::infinity());
  if (windows.is_dilated()) return {cast(max(unfolded(y, windows), last_axes(windows.axes())), x.dtype())};
  switch (windows.axes()) {
    case 1: return {cast(pooled<1, Pool1dGeometry, max_pool1d>(y, windows), x.dtype())};
    case 2: return {cast(pooled<2, Pool2dGeometry, max_pool2d>(y, windows), x.dtype())};
    default: return {cast(pooled<3, Pool3dGeometry, max_pool3d>(y, windows), x.dtype())};
  }
}

Tensors average_pool(const Call& call) {
  const Tensor& x = call.in(0);
  const bool counts_padding = call.integer("count_include_pad", 0) != 0;
  const Windows told = windows_of(call, x, call.integers("kernel_shape").value_or(Integers{}));
  const Windows windows = pooling_windows(call, x);
  const auto mean_of = [&](const Tensor& y) -> Tensor {
    if (windows.is_dilated()) return mean(unfolded(y, windows), last_axes(windows.axes()));
    switch (windows.axes()) {
      case 1: return pooled<1, AvgPool1dGeometry, avg_pool1d>(y, windows);
      case 2: return pooled<2, AvgPool2dGeometry, avg_pool2d>(y, windows);
      default: return pooled<3, AvgPool3dGeometry, avg_pool3d>(y, windows);
    }
  };
  // Of elements that count: x, or x and its padding, but never what rounding up has added.
  Shape one = x.shape();
  one[0] = 1;
  one[1] = 1;
  Tensor counted = ones(one, {.dtype = x.dtype(), .device = x.device()});
  if (counts_padding) counted = with_margin(counted, told.begin, told.end, 1.0);
  Integers begin = windows.begin;
  Integers end = windows.end;
  if (counts_padding)
    for (std::size_t i = 0; i < windows.axes(); ++i) {
      begin[i] -= told.begin[i];
      end[i] -= told.end[i];
    }
  counted = with_margin(counted, begin, end, 0.0);
  return {mean_of(with_margin(x, windows.begin, windows.end, 0.0)) / mean_of(counted)};
}

Axes behind_channels(const Tensor& x) {
  Integers axes;
  for (std::int64_t i = 2; i < x.dim(); ++i) axes.push_back(i);
  return Axes(axes);
}

/// Over all axes behind the channels; without such axes there is nothing to pool.
template <Tensor (*reduce)(const Tensor&, const Axes&, bool)> Tensors global_pool(const Call& call) {
  const Tensor& x = call.in(0);
  return {x.dim() > 2 ? reduce(x, behind_channels(x), true) : x};
}

Tensors global_lp_pool(const Call& call) {
  const Tensor& x = call.in(0);
  if (x.dim() <= 2) return {abs(x)};
  const std::int64_t p = call.integer("p", 2);
  if (p == 2) return {norm(x, behind_channels(x), true)};
  if (p == 1) return {sum(abs(x), behind_channels(x), true)};
  call.refuse("p is neither 1 nor 2");
}

/// Neighbouring channels weigh on each other. Krizhevsky et al. (2012).
Tensors local_response(const Call& call) {
  const Tensor& x = call.in(0);
  const std::int64_t size = call.integer("size", 1);
  if (x.dim() < 2 || size < 1 || size > kMost) call.refuse("an input with channels is needed, and a size above 0");
  const double alpha = call.number("alpha", 1e-4);
  const double beta = call.number("beta", 0.75);
  const double bias = call.number("bias", 1.0);
  std::vector<Padding> pairs(x.rank());
  pairs[1] = {(size - 1) / 2, size - 1 - (size - 1) / 2};
  const Tensor squares = sum(unfold(pad(x * x, pairs, 0.0), 1, size, 1), {-1});
  const auto scalar = [&](double value) { return full({}, value, {.dtype = x.dtype(), .device = x.device()}); };
  return {x / pow(squares * scalar(alpha / static_cast<double>(size)) + scalar(bias), scalar(beta))};
}

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
  const auto place = [&](std::size_t i) -> std::int64_t {
    const std::int64_t axis = axes ? (*axes)[i] : static_cast<std::int64_t>(i);
    if (axis < -x.dim() || axis >= x.dim())
      call.refuse("axis " + std::to_string(axis) + " of " + std::to_string(x.dim()));
    return axis < 0 ? axis + x.dim() : axis;
  };
  const bool has_sizes = !is_upsample && call.has(sizes_input) && call.in(sizes_input).size() > 0;
  std::vector<double> factors = is_upsample && call.opset() < 9 ? call.numbers("scales") : std::vector<double>();
  if (!has_sizes && factors.empty()) factors = call.in(scales_input).to(cpu()).cast(DType::f64).to_vector<double>();
  Shape size;
  for (std::int64_t i = 2; i < x.dim(); ++i) size.push_back(x.length(i));
  const std::size_t told = has_sizes ? static_cast<std::size_t>(call.in(sizes_input).size()) : factors.size();
  const Integers sizes = has_sizes ? call.values(sizes_input) : Integers();
  if (told != (axes ? axes->size() : x.rank())) call.refuse("scales or sizes are not one for each axis");
  for (std::size_t i = 0; i < told; ++i) {
    const std::int64_t axis = place(i);
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
    {"AveragePool", average_pool},
    {"Conv", convolution},
    {"ConvTranspose", transposed_convolution},
    {"GlobalAveragePool", global_pool<mean>},
    {"GlobalLpPool", global_lp_pool},
    {"GlobalMaxPool", global_pool<max>},
    {"GridSample", grid_sampled},
    {"LRN", local_response},
    {"MaxPool", max_pool},
    {"Resize", [](const Call& call) { return call.opset() < 11 ? resized(call, 1, 9) : resized(call, 2, 3); }},
    {"Upsample", [](const Call& call) { return resized(call, 1, 0); }},
};

}  // namespace

std::span<const OperatorEntry> image_operators() { return kOperators; }

}  // namespace tutti::onnx
