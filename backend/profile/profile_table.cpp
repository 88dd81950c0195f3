// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/profile.h>

#include <tutti/backend/profile/kernel_words.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <array>
#include <map>

namespace tutti {
namespace {

constexpr double kGiga = 1e9;
constexpr std::size_t kColumns = 7;
using Line = std::array<std::string, kColumns>;

double seconds_of(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

/// Whether the kernel's products are of bf16; sums, masks and states beside it may be of other types.
bool multiplies_bf16(const ProfiledKernel& kernel) {
  return std::ranges::find(kernel.operands, DType::bf16, &ProfiledKernel::Operand::dtype) != kernel.operands.end();
}

/// Sums over the kernels of a row.
struct Sums {
  double calls = 0.0;
  double seconds = 0.0;
  double flops = 0.0;
  double bytes = 0.0;
  // The shortest times that the limits allow, of those that operations bound and of those that bytes do.
  double bound_by_flops = 0.0;
  double bound_by_bytes = 0.0;

  void add(const ProfiledKernel& kernel, const std::optional<ProcessorLimits>& limits) {
    const double moved = kernel.bytes_read + kernel.bytes_written;
    calls += 1.0;
    seconds += seconds_of(kernel.duration);
    flops += kernel.flops;
    bytes += moved;
    if (!limits || kernel.device.kind != DeviceKind::cpu) return;
    const double rate = limits->copy_rate(moved);
    const double flops_rate = limits->bf16_flops > 0 && multiplies_bf16(kernel) ? limits->bf16_flops : limits->flops;
    const double by_flops = flops_rate > 0 ? kernel.flops / flops_rate : 0.0;
    const double by_bytes = rate > 0 ? moved / rate : 0.0;
    (by_flops > by_bytes ? bound_by_flops : bound_by_bytes) += std::max(by_flops, by_bytes);
  }
};

std::string shown_operands(const ProfiledKernel& kernel) {
  constexpr std::size_t kMost = 6;
  std::vector<ProfiledKernel::Operand> shown = kernel.operands;
  shown.resize(std::min(shown.size(), kMost));
  std::string text = operands_text(shown);
  if (shown.size() < kernel.operands.size()) text += fmt::format(" and {} more", kernel.operands.size() - shown.size());
  return text;
}

std::string row_of(const ProfiledKernel& kernel, ProfileRows rows) {
  switch (rows) {
    case ProfileRows::kernels: break;
    case ProfileRows::shapes: return kernel.name + "  " + shown_operands(kernel);
    case ProfileRows::operations:
      if (kernel.operation.empty()) return "no operation";
      return kernel.operation + (kernel.backward ? ", backward" : "");
  }
  return kernel.name;
}

std::string rate_text(double count, double seconds) {
  return count > 0 && seconds > 0 ? fmt::format("{:.1f}", count / seconds / kGiga) : "";
}

/// A unit of time in which the mean of the runs has digits that tell something.
struct Unit {
  const char* name;
  double of_a_second;
};
constexpr Unit kMilliseconds{"ms", 1e3};
constexpr Unit kMicroseconds{"us", 1e6};

/// The runs that a table is the mean of.
struct Runs {
  double count = 0.0;
  double seconds = 0.0;
  Unit unit() const { return seconds < 1e-3 * count ? kMicroseconds : kMilliseconds; }
};

Line line_of(const std::string& name, const Sums& sums, const Runs& runs) {
  const double bound = sums.bound_by_flops + sums.bound_by_bytes;
  const bool by_flops = sums.bound_by_flops > sums.bound_by_bytes;
  return {name,
          fmt::format("{:.4g}", sums.calls / runs.count),
          fmt::format("{:.3f}", runs.unit().of_a_second * sums.seconds / runs.count),
          fmt::format("{:.1f} %", runs.seconds > 0 ? 100 * sums.seconds / runs.seconds : 0.0),
          rate_text(sums.flops, sums.seconds),
          rate_text(sums.bytes, sums.seconds),
          bound > 0 && sums.seconds > 0
              ? fmt::format("{:.0f} % of {}", 100 * bound / sums.seconds, by_flops ? "GFLOP/s" : "GB/s   ")
              : ""};
}

std::string aligned(const std::vector<Line>& lines) {
  std::array<std::size_t, kColumns> widths{};
  for (const Line& line : lines)
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const Line& line : lines) {
    std::string row = fmt::format("{:<{}}", line[0], widths[0]);
    for (std::size_t i = 1; i < kColumns; ++i) row += fmt::format("  {:>{}}", line[i], widths[i]);
    text += row.erase(row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string limits_text(const ProcessorLimits& limits) {
  constexpr std::int64_t kKibi = 1024;
  std::string text = fmt::format("limits: {:.1f} GFLOP/s in f32 multiply-adds", limits.flops / kGiga);
  if (limits.bf16_flops > 0)
    text += fmt::format(", {:.1f} in products of bf16 ({})", limits.bf16_flops / kGiga, limits.bf16_products);
  text += "; copies, GB/s:";
  for (const CopyLimit& copy : limits.copies)
    text += fmt::format("{} {:.1f} ({})", &copy == limits.copies.data() ? "" : ",", copy.bytes_per_second / kGiga,
                        copy.bytes < kKibi * kKibi ? fmt::format("{} KiB", copy.bytes / kKibi)
                                                   : fmt::format("{} MiB", copy.bytes / kKibi / kKibi));
  return text + "\n";
}

}  // namespace

std::string profile_table(const std::vector<ProfiledRun>& runs, const ProfileTableOptions& options) {
  if (runs.empty()) return "nothing was profiled\n";
  std::map<std::string, Sums> rows;
  Sums kernels;
  Runs all{.count = static_cast<double>(runs.size())};
  for (const ProfiledRun& run : runs) {
    all.seconds += seconds_of(run.duration);
    for (const ProfiledKernel& kernel : run.kernels) {
      rows[row_of(kernel, options.rows)].add(kernel, options.limits);
      kernels.add(kernel, options.limits);
    }
  }
  std::vector<std::pair<std::string, Sums>> sorted(rows.begin(), rows.end());
  std::ranges::stable_sort(sorted, std::ranges::greater(), [](const auto& row) { return row.second.seconds; });
  const bool by_operation = options.rows == ProfileRows::operations;
  std::vector<Line> lines{{by_operation ? "operation" : "kernel", by_operation ? "kernels" : "calls", all.unit().name,
                           "share", "GFLOP/s", "GB/s", "limit"}};
  for (const auto& [name, sums] : sorted) lines.push_back(line_of(name, sums, all));
  Line between = line_of("between kernels", {.seconds = all.seconds - kernels.seconds}, all);
  between[1].clear();
  lines.push_back(between);
  kernels.seconds = all.seconds;
  lines.push_back(line_of("whole", kernels, all));
  std::string text = fmt::format("mean of {} run{}\n", runs.size(), runs.size() == 1 ? "" : "s") + aligned(lines);
  return options.limits ? text + limits_text(*options.limits) : text;
}

}  // namespace tutti
