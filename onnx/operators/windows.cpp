// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/operators/windows.h>

namespace tutti::onnx {

Windows windows_of(const OperatorCall& call, const Tensor& x, Integers kernel) {
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
    if (std::ranges::any_of(*each, [](std::int64_t number) { return number < 1 || number > kMostLength; }))
      call.refuse("lengths, strides and dilations of the kernel have to be above 0");
  if (std::ranges::any_of(pads, [](std::int64_t number) { return number < 0 || number > kMostLength; }))
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

}  // namespace tutti::onnx
