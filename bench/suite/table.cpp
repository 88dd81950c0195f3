// SPDX-License-Identifier: Apache-2.0
#include <tutti/bench/suite/table.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti::bench {

namespace {

constexpr double kGiga = 1e9;
constexpr std::size_t kColumns = 10;
using Row = std::array<std::string, kColumns>;

std::string time_text(double seconds) {
  if (seconds >= 1.0) return fmt::format("{:.4g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.4g} ms", seconds * 1e3);
  if (seconds >= 1e-6) return fmt::format("{:.4g} us", seconds * 1e6);
  return fmt::format("{:.4g} ns", seconds * 1e9);
}

std::string size_text(std::int64_t bytes) {
  constexpr std::int64_t kUnit = 1024;
  if (bytes < kUnit) return fmt::format("{} B", bytes);
  if (bytes < kUnit * kUnit) return fmt::format("{} KiB", bytes / kUnit);
  return fmt::format("{} MiB", bytes / kUnit / kUnit);
}

std::string share(double rate, double limit) { return limit > 0 ? fmt::format("{:.0f} %", 100 * rate / limit) : ""; }

Row row_of(const Measurement& measured, const std::optional<ProcessorLimits>& limits) {
  const double seconds = measured.seconds();
  const bool is_limited = limits && measured.device.kind == DeviceKind::cpu;
  Row row{measured.name, time_text(seconds), fmt::format("{:.1f} %", 100 * measured.spread())};
  if (measured.work.flops > 0) {
    const double rate = measured.work.flops / seconds;
    row[3] = fmt::format("{:.2f}", rate / kGiga);
    row[4] = share(rate, is_limited ? limits->flops : 0.0);
  }
  if (measured.work.bytes > 0) {
    const double rate = measured.work.bytes / seconds;
    row[5] = fmt::format("{:.2f}", rate / kGiga);
    row[6] = share(rate, is_limited ? limits->copy_rate(measured.work.bytes) : 0.0);
  }
  row[7] = fmt::format("{}", measured.array_allocations);
  if (measured.heap_allocations) row[8] = fmt::format("{}", *measured.heap_allocations);
  if (const auto ratio = measured.ratio()) row[9] = fmt::format("{:.3f}", *ratio);
  return row;
}

}  // namespace

std::string limits_text(const ProcessorLimits& limits) {
  std::string text = fmt::format(
      "limits of one core: {:.1f} GFLOP/s in f32 multiply-adds; copies, GB/s read and written:", limits.flops / kGiga);
  for (const CopyLimit& copy : limits.copies)
    text += fmt::format("{} {:.1f} ({})", &copy == limits.copies.data() ? "" : ",", copy.bytes_per_second / kGiga,
                        size_text(copy.bytes));
  return text + "\n";
}

std::string table_text(const std::vector<Measurement>& measurements, const std::optional<ProcessorLimits>& limits) {
  std::vector<Row> rows{{"", "time", "+-", "GFLOP/s", "of limit", "GB/s", "of limit", "arrays", "heap", "to baseline"}};
  for (const Measurement& each : measurements) rows.push_back(row_of(each, limits));
  std::array<std::size_t, kColumns> widths{};
  for (std::size_t column = 0; column < kColumns; ++column) {
    const auto width = [column](const Row& row) { return row[column].size(); };
    if (std::ranges::all_of(rows.begin() + 1, rows.end(), [&](const Row& row) { return width(row) == 0; })) continue;
    widths[column] = width(*std::ranges::max_element(rows, {}, width));
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line = fmt::format("{:<{}}", row[0], widths[0]);
    for (std::size_t column = 1; column < kColumns; ++column)
      if (widths[column] > 0) line += fmt::format("  {:>{}}", row[column], widths[column]);
    text += line.erase(line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace tutti::bench
