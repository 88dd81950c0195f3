// SPDX-License-Identifier: Apache-2.0
#include <tutti/testing/device_comparison.h>

#include <tutti/backend/error.h>
#include <tutti/testing/devices/closeness.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <random>
#include <utility>

namespace tutti::testing {

double tolerance(DType dtype) {
  if (!is_floating(dtype)) return 0;
  return size_of(dtype) == 8 ? 1e-12 : size_of(dtype) == 4 ? 1e-5 : 1e-2;
}

namespace {

/// "" or the first element that differs, and how many do.
std::string difference(const Array& expected, const Array& found, Match match, double slack) {
  if (expected.shape() != found.shape() || expected.dtype() != found.dtype())
    return fmt::format("{} {} and {} {}", to_string(expected.dtype()), to_string(expected.shape()),
                       to_string(found.dtype()), to_string(found.shape()));
  const Array a = expected.to(cpu()).contiguous();
  const Array b = found.to(cpu()).contiguous();
  const auto x = a.cast(DType::f64).to_vector<double>();
  const auto y = b.cast(DType::f64).to_vector<double>();
  const std::size_t width = size_of(a.dtype());
  const double floor = match == Match::largest ? largest_finite(x) : 0.1;
  std::size_t count = 0;
  std::size_t first = 0;
  for (std::size_t i = x.size(); i-- > 0;) {
    const bool same = match == Match::bitwise || !is_floating(a.dtype())
                          ? std::memcmp(a.raw_data() + i * width, b.raw_data() + i * width, width) == 0 ||
                                (is_floating(a.dtype()) && std::isnan(x[i]) && std::isnan(y[i]))
                          : close(x[i], y[i], slack * tolerance(a.dtype()) * std::max(std::abs(x[i]), floor));
    if (same) continue;
    ++count;
    first = i;
  }
  if (count == 0) return {};
  return fmt::format("{} of {} elements, the first at {}: {:.9g} and {:.9g}", count, x.size(), first, x[first],
                     y[first]);
}

struct Outcome {
  Arrays outputs;
  std::string error;
};

Outcome run(const Arrays& inputs, Layout layout, Device device, const DeviceComparison::Operation& operation) {
  Outcome outcome;
  try {
    Arrays placed;
    for (const Array& input : inputs) placed.push_back(laid_out(input, layout, device));
    for (const Array& output : operation(placed)) outcome.outputs.push_back(output.to(cpu()));
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  return outcome;
}

}  // namespace

std::string_view to_string(Layout layout) {
  switch (layout) {
    case Layout::spaced: return "spaced";
    case Layout::transposed: return "transposed";
    case Layout::shifted: return "shifted";
    case Layout::repeated: return "repeated";
    case Layout::contiguous: break;
  }
  return "contiguous";
}

Array laid_out(const Array& values, Layout layout, Device device) {
  const Array x = values.to(device).contiguous();
  if (x.rank() == 0) return x;
  Shape longer = x.shape();
  switch (layout) {
    case Layout::spaced: longer[longer.size() - 1] *= 2; break;
    case Layout::shifted: longer[longer.size() - 1] += 1; break;
    case Layout::transposed: return x.rank() > 1 ? x.transpose().copy().transpose() : x;
    case Layout::repeated: return x.length(0) > 0 ? x.slice(0, 0, 1).broadcast_to(x.shape()) : x;
    case Layout::contiguous: return x.storage() == values.storage() ? x.copy() : x;
  }
  const Array storage = Array::zeros(longer, x.dtype(), device);
  Array view = layout == Layout::spaced ? storage.slice(-1, 0, longer.back(), 2) : storage.slice(-1, 1, longer.back());
  view.copy_from(x);
  return view;
}

void DeviceComparison::compare(std::string_view name, const Arrays& inputs, const Operation& operation, Match match,
                               Layout layout) {
  ++comparisons_;
  const Outcome expected = run(inputs, layout, reference_, operation);
  const Outcome found = run(inputs, layout, tested_, operation);
  const auto note = [&](const std::string& text) {
    std::string shapes;
    for (const Array& input : inputs)
      shapes += fmt::format(" {} {}", to_string(input.dtype()), to_string(input.shape()));
    differences_.push_back(fmt::format("{}{}{} of{}, {}: {} and {}: {}", name, case_.empty() ? "" : ", ", case_, shapes,
                                       to_string(layout), to_string(reference_), to_string(tested_), text));
  };
  if (expected.error.empty() != found.error.empty())
    return note(expected.error.empty() ? "the second threw: " + found.error : "the first threw: " + expected.error);
  if (!expected.error.empty()) refused_.insert(fmt::format("{}: {}", name, expected.error));
  if (expected.outputs.size() != found.outputs.size())
    return note(fmt::format("{} outputs and {}", expected.outputs.size(), found.outputs.size()));
  for (std::size_t i = 0; i < expected.outputs.size(); ++i)
    if (const std::string text = difference(expected.outputs[i], found.outputs[i], match, slack_); !text.empty())
      note(fmt::format("output {}: {}", i, text));
}

void DeviceComparison::compare_layouts(std::string_view name, const Arrays& inputs, const Operation& operation,
                                       Match match) {
  for (const Layout layout : kAllLayouts) compare(name, inputs, operation, match, layout);
}

Array numbers(const Shape& shape, DType dtype, Numbers kind, unsigned seed) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kSpecial[] = {
      std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 0.0, -0.0, 1e30, -1e30, 1e-30, 1.0, -1.0};
  std::mt19937 engine(seed);
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (double& value : values) {
    const double unit = static_cast<double>(engine() >> 8U) * 0x1p-24;
    const std::size_t place = engine() % (4 * std::size(kSpecial));
    value = kind == Numbers::positive ? 0.05 + 2.95 * unit : 6 * unit - 3;
    if (kind == Numbers::special && place < std::size(kSpecial)) value = kSpecial[place];
  }
  // Integers: casting saturates, and gives 0 for NaN.
  return Array::from(values, shape, cpu()).cast(dtype);
}

Array indices(const Shape& shape, std::int64_t below, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::int64_t> values(static_cast<std::size_t>(element_count(shape)));
  for (std::int64_t& value : values) value = static_cast<std::int64_t>(engine()) % below;
  return Array::from(values, shape, cpu());
}

}  // namespace tutti::testing
