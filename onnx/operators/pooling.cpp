// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/operators/windows.h>

#include <limits>

namespace tutti::onnx {

namespace {

using Call = OperatorCall;

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
  if (x.dim() < 2 || size < 1 || size > kMostLength)
    call.refuse("an input with channels is needed, and a size above 0");
  const double alpha = call.number("alpha", 1e-4);
  const double beta = call.number("beta", 0.75);
  const double bias = call.number("bias", 1.0);
  std::vector<Padding> pairs(x.rank());
  pairs[1] = {(size - 1) / 2, size - 1 - (size - 1) / 2};
  const Tensor squares = sum(unfold(pad(x * x, pairs, 0.0), 1, size, 1), {-1});
  const Tensor scale = scalar_like(x, alpha / static_cast<double>(size));
  return {x / pow(squares * scale + scalar_like(x, bias), scalar_like(x, beta))};
}

constexpr OperatorEntry kOperators[] = {
    {"AveragePool", average_pool},    {"GlobalAveragePool", global_pool<mean>},
    {"GlobalLpPool", global_lp_pool}, {"GlobalMaxPool", global_pool<max>},
    {"LRN", local_response},          {"MaxPool", max_pool},
};

}  // namespace

std::span<const OperatorEntry> pooling_operators() { return kOperators; }

}  // namespace tutti::onnx
