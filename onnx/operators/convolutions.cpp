// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/operators/windows.h>

namespace tutti::onnx {

namespace {

using Call = OperatorCall;

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
      std::ranges::any_of(more, [](std::int64_t number) { return number < 0 || number > kMostLength; }) ||
      (wanted && std::ranges::any_of(*wanted, [](std::int64_t number) { return number < 0 || number > kMostLength; })))
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
        const Tensor last = scalar_like(y, y.length(axis), DType::i64);
        outside = where(reshape(line, along) >= last, reshape(call.in(2), channels), outside);
      }
      y = outside;
    }
    y = slice(y, axis, windows.begin[i], whole - windows.end[i]);
  }
  return {y};
}

constexpr OperatorEntry kOperators[] = {
    {"Conv", convolution},
    {"ConvTranspose", transposed_convolution},
};

}  // namespace

std::span<const OperatorEntry> convolution_operators() { return kOperators; }

}  // namespace tutti::onnx
