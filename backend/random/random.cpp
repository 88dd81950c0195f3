// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/random.h>

#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/random/draw_log.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace tutti {
namespace {

// Counters are shared out so that no two kinds of draw ever read the same block: f32 elements from 0, f64 elements from
// 2^62 (blocks from 2^61), host integers from block 2^63, splits from block 2^63 + 2^62.
constexpr std::uint64_t kDoubleElements = std::uint64_t{1} << 62U;
constexpr std::uint64_t kHostBlocks = std::uint64_t{1} << 63U;
constexpr std::uint64_t kSplitBlocks = kHostBlocks | (std::uint64_t{1} << 62U);

using philox_formulas::join;

/// The largest number of a 16-bit type below `high`; that of `low` where there is none between.
template <class T> float last_below(double low, double high) {
  const T nearest(high);
  const T last = static_cast<double>(nearest) < high ? nearest : nearest.below();
  return std::max<float>(last, T(low));
}

std::string_view name_of(RandomCall::Kind kind) {
  switch (kind) {
    case RandomCall::Kind::uniform: return "uniform";
    case RandomCall::Kind::normal: return "normal";
    case RandomCall::Kind::truncated_normal: break;
  }
  return "truncated_normal";
}

/// P(Z < z) of the standard normal distribution.
double share_below(double z) { return std::erfc(-z * std::numbers::sqrt2 / 2) / 2; }

}  // namespace

Array Generator::draw(RandomCall call, const Shape& shape, DType dtype, Device device) {
  if (!is_floating(dtype)) raise<DTypeError>("[{}] draws floating types, not {}", name_of(call.kind), to_string(dtype));
  if (is_narrow(dtype)) {  // narrowing may round up to the upper end, which is excluded
    const Array wide = draw(call, shape, DType::f32, device);
    if (call.kind != RandomCall::Kind::uniform) return wide.cast(dtype);
    const float last =
        dtype == DType::bf16 ? last_below<BFloat16>(call.a, call.b) : last_below<Float16>(call.a, call.b);
    return apply(elementwise::Minimum{}, wide, Array::full({}, last, DType::f32, device)).cast(dtype);
  }
  checked_element_count(name_of(call.kind), shape);
  Array result = Array::empty(shape, dtype, device);
  call = next(call, static_cast<std::uint64_t>(result.size()), dtype);
  if (result.size() > 0) backend_for(device).random(call, result);
  return result;
}

RandomCall Generator::next(RandomCall call, std::uint64_t count, DType dtype) {
  call.seed = seed_;
  call.stream = stream_;
  const std::uint64_t stood_at = counter_;
  const std::uint64_t first = advance(count);
  if (Capture* capture = active_capture()) capture->draws().note_draw(*this, stood_at, first);
  call.offset = (dtype == DType::f64 ? kDoubleElements : 0) + first;
  return call;
}

std::uint64_t Generator::advance(std::uint64_t count) { return DrawScope::take(seed_, stream_, counter_, count); }

Array Generator::uniform(const Shape& shape, DType dtype, Device device, double low, double high) {
  if (!(low <= high)) raise("[uniform] the lower end {} is above the upper end {}", low, high);
  if (!std::isfinite(high - low)) raise("[uniform] from {} to {} is no finite distance", low, high);
  return draw({.kind = RandomCall::Kind::uniform, .a = low, .b = high}, shape, dtype, device);
}

Array Generator::normal(const Shape& shape, DType dtype, Device device, double mean, double standard_deviation) {
  if (!(standard_deviation >= 0)) raise("[normal] the standard deviation {} is negative", standard_deviation);
  return draw({.kind = RandomCall::Kind::normal, .a = mean, .b = standard_deviation}, shape, dtype, device);
}

// Levels are worked out in the lower half, where they are exact: a distribution above its mean is mirrored.
Array Generator::truncated_normal(const Shape& shape, DType dtype, Device device, double mean,
                                  double standard_deviation, double low, double high) {
  if (!(standard_deviation > 0))
    raise("[truncated_normal] the standard deviation {} is not positive", standard_deviation);
  const bool mirrored = low > mean;
  const double sign = mirrored ? -1 : 1;
  const double from = sign * ((mirrored ? high : low) - mean) / standard_deviation;
  const double to = sign * ((mirrored ? low : high) - mean) / standard_deviation;
  const RandomCall call{.kind = RandomCall::Kind::truncated_normal,
                        .a = mean,
                        .b = sign * standard_deviation,
                        .low_level = share_below(from),
                        .high_level = share_below(to)};
  if (!(low < high && call.low_level < call.high_level))
    raise("[truncated_normal] nothing of the normal distribution of mean {} and standard deviation {} lies in [{}, {}]",
          mean, standard_deviation, low, high);
  const Array drawn = draw(call, shape, dtype, device);
  const Array above = apply(elementwise::Maximum{}, drawn, Array::full({}, low, dtype, device));
  return apply(elementwise::Minimum{}, above, Array::full({}, high, dtype, device));
}

Array Generator::bernoulli(const Shape& shape, double probability, Device device) {
  if (!(probability >= 0 && probability <= 1)) raise("[bernoulli] the probability {} is not in [0, 1]", probability);
  const Array numbers = uniform(shape, DType::f32, device);
  return apply(elementwise::Less{}, numbers, Array::full({}, probability, DType::f32, device));
}

std::uint64_t Generator::host_number(std::uint64_t counter) const {
  const Philox block = philox(seed_, stream_, kHostBlocks + counter);
  return join(block.word[0], block.word[1]);
}

std::uint64_t Generator::next_u64() {
  if (active_capture() != nullptr)
    raise<CaptureError>(
        "[random] the step draws a random number on the host, which replays would repeat: draw it before the step and "
        "pass what depends on it as an input");
  return host_number(advance(1));
}

Generator Generator::fork() {
  const std::uint64_t stood_at = counter_;
  const std::uint64_t first = advance(1);
  const Generator child(host_number(first));
  if (Capture* capture = active_capture()) capture->draws().note_fork(*this, stood_at, first, child);
  return child;
}

std::uint64_t Generator::below(std::uint64_t bound) {
  if (bound == 0) raise("[random] there is no number below 0");
  const std::uint64_t rejected = -bound % bound;  // 2^64 mod bound: so many lowest draws would favour small results
  std::uint64_t drawn = next_u64();
  while (drawn < rejected) drawn = next_u64();
  return drawn % bound;
}

// Fisher and Yates' shuffle, in Durstenfeld's form.
std::vector<std::int64_t> Generator::permutation(std::int64_t count) {
  if (count < 0) raise<ShapeError>("[permutation] {} numbers", count);
  std::vector<std::int64_t> order;
  if (static_cast<std::size_t>(count) > order.max_size())
    raise<OutOfMemoryError>("[permutation] no machine holds {} numbers", count);
  order.resize(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[below(left)]);
  return order;
}

Generator Generator::split(std::uint64_t index) const {
  const Philox block = philox(seed_, stream_, kSplitBlocks + index);
  const Generator child(join(block.word[0], block.word[1]), join(block.word[2], block.word[3]));
  if (Capture* capture = active_capture()) capture->draws().note_split(*this, index, child);
  return child;
}

}  // namespace tutti
