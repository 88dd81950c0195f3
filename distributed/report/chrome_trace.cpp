// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/report/chrome_trace.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>

namespace tutti {

namespace {

using Time = SyncReport::Time;

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) result += c;
  }
  return result;
}

/// Lines of the "traceEvents" array.
class TraceLines {
 public:
  TraceLines(int process, std::chrono::nanoseconds origin) : process_(process), origin_(origin) {}

  void name_process(const std::string& name) {
    line(fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":"{}"}}}})", process_, escaped(name)));
  }
  void name_track(std::size_t track, const std::string& name) {
    line(fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})", process_, track,
                     escaped(name)));
  }
  void span(std::size_t track, const std::string& name, Time begin, Time end, std::int64_t generation) {
    line(
        fmt::format(R"({{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"generation":{}}}}})",
                    escaped(name), process_, track, microseconds(begin),
                    std::max(0.0, microseconds(end) - microseconds(begin)), generation));
  }
  void instant(std::size_t track, const std::string& name, Time at) {
    line(fmt::format(R"({{"name":"{}","ph":"i","s":"t","pid":{},"tid":{},"ts":{:.3f}}})", escaped(name), process_,
                     track, microseconds(at)));
  }
  std::string take() { return std::move(text_); }

 private:
  double microseconds(Time time) const {
    return std::chrono::duration<double, std::micro>(time.time_since_epoch() - origin_).count();
  }
  void line(const std::string& event) {
    if (!text_.empty()) text_ += ",\n";
    text_ += event;
  }

  int process_;
  std::chrono::nanoseconds origin_;
  std::string text_;
};

void add_step(TraceLines& lines, const SyncReport& report, const SyncReport::Step& step) {
  const std::size_t reductions_track = report.devices.size();
  for (std::size_t d = 0; d < step.devices.size(); ++d) {
    const auto& times = step.devices[d];
    if (times.begin == Time{} || times.backward_end == Time{}) continue;
    lines.span(d, "backward", times.begin, times.backward_end, step.generation);
    if (times.joined != Time{}) lines.span(d, "join", times.backward_end, times.joined, step.generation);
  }
  for (const auto& reduction : step.reductions) {
    const std::string& name = report.parameters[reduction.parameter.value];
    for (std::size_t d = 0; d < reduction.ready.size(); ++d)
      if (reduction.ready[d] != Time{}) lines.instant(d, "final: " + name, reduction.ready[d]);
    if (reduction.finished != Time{})
      lines.span(reductions_track, name, reduction.launched, reduction.finished, step.generation);
  }
}

}  // namespace

std::vector<StepRelease> releases_of(const SyncReport& report) {
  std::vector<StepRelease> all;
  for (const SyncReport::Step& step : report.steps) {
    Time first = Time::max();
    for (const auto& times : step.devices)
      if (times.released != Time{}) first = std::min(first, times.released);
    if (first != Time::max()) all.push_back({step.group, step.generation, first.time_since_epoch()});
  }
  return all;
}

std::chrono::nanoseconds clock_shift(std::span<const StepRelease> own, std::span<const StepRelease> other) {
  std::map<std::pair<std::uint64_t, std::int64_t>, std::chrono::nanoseconds> theirs;
  for (const StepRelease& each : other) theirs[{each.group, each.generation}] = each.at;
  std::vector<std::chrono::nanoseconds> differences;
  for (const StepRelease& each : own)
    if (const auto found = theirs.find({each.group, each.generation}); found != theirs.end())
      differences.push_back(each.at - found->second);
  if (differences.empty()) return {};
  const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2);
  std::ranges::nth_element(differences, middle);
  return *middle;
}

std::chrono::nanoseconds first_begin(const SyncReport& report) {
  Time first = Time::max();
  for (const auto& step : report.steps)
    for (const auto& times : step.devices)
      if (times.begin != Time{}) first = std::min(first, times.begin);
  return first.time_since_epoch();
}

std::string trace_events(const SyncReport& report, int world, std::chrono::nanoseconds origin) {
  const int rank = report.devices.empty() ? 0 : report.devices.front().rank;
  TraceLines lines(rank + 1, origin);
  if (world > 1) lines.name_process(fmt::format("rank {}", rank));
  for (std::size_t d = 0; d < report.devices.size(); ++d) lines.name_track(d, to_string(report.devices[d], world));
  lines.name_track(report.devices.size(), "reductions");
  for (const auto& step : report.steps) add_step(lines, report, step);
  return lines.take();
}

void write_trace(const std::string& events, const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), &std::fclose);
  if (!file) raise<DataError>("[trace] cannot write {}", path);
  std::fputs("{\"traceEvents\":[\n", file.get());
  std::fputs(events.c_str(), file.get());
  std::fputs("\n],\"displayTimeUnit\":\"ms\"}\n", file.get());
  if (std::fflush(file.get()) != 0 || std::ferror(file.get()) != 0) raise<DataError>("[trace] writing {} failed", path);
}

void write_chrome_trace(const SyncReport& report, const std::string& path) {
  write_trace(trace_events(report, world_of(report.devices), first_begin(report)), path);
}

}  // namespace tutti
