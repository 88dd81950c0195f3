// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/sync_report.h>

#include <tutti/backend/error.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace tutti {

namespace {

using Time = SyncReport::Time;

Time last_ready(const SyncReport::Step& step) {
  Time last{};
  for (const auto& reduction : step.reductions)
    for (const Time ready : reduction.ready) last = std::max(last, ready);
  return last;
}

double microseconds(Time time, Time origin) { return std::chrono::duration<double, std::micro>(time - origin).count(); }

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) result += c;
  }
  return result;
}

// Writes the "traceEvents" array of the format.
class TraceWriter {
 public:
  TraceWriter(std::FILE* file, Time origin) : file_(file), origin_(origin) {
    std::fputs("{\"traceEvents\":[\n", file_);
  }
  void track(std::size_t track, const std::string& name) {
    line(fmt::format(R"({{"name":"thread_name","ph":"M","pid":1,"tid":{},"args":{{"name":"{}"}}}})", track,
                     escaped(name)));
  }
  void span(std::size_t track, const std::string& name, Time begin, Time end, std::int64_t generation) {
    line(fmt::format(R"({{"name":"{}","ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"generation":{}}}}})",
                     escaped(name), track, microseconds(begin, origin_), std::max(0.0, microseconds(end, begin)),
                     generation));
  }
  void instant(std::size_t track, const std::string& name, Time at) {
    line(fmt::format(R"({{"name":"{}","ph":"i","s":"t","pid":1,"tid":{},"ts":{:.3f}}})", escaped(name), track,
                     microseconds(at, origin_)));
  }
  void close() { std::fputs("\n],\"displayTimeUnit\":\"ms\"}\n", file_); }

 private:
  void line(const std::string& event) {
    if (!first_) std::fputs(",\n", file_);
    first_ = false;
    std::fputs(event.c_str(), file_);
  }

  std::FILE* file_;
  Time origin_;
  bool first_ = true;
};

void write_step(TraceWriter& writer, const SyncReport& report, const SyncReport::Step& step) {
  const std::size_t reductions_track = report.devices.size();
  for (std::size_t d = 0; d < step.devices.size(); ++d) {
    const auto& times = step.devices[d];
    if (times.begin == Time{} || times.backward_end == Time{}) continue;
    writer.span(d, "backward", times.begin, times.backward_end, step.generation);
    if (times.joined != Time{}) writer.span(d, "join", times.backward_end, times.joined, step.generation);
  }
  for (const auto& reduction : step.reductions) {
    const std::string& name = report.parameters[reduction.parameter.value];
    for (std::size_t d = 0; d < reduction.ready.size(); ++d)
      if (reduction.ready[d] != Time{}) writer.instant(d, "final: " + name, reduction.ready[d]);
    if (reduction.finished != Time{})
      writer.span(reductions_track, name, reduction.launched, reduction.finished, step.generation);
  }
}

}  // namespace

bool SyncReport::overlapped(const Step& step) {
  const Time last = last_ready(step);
  return std::any_of(step.reductions.begin(), step.reductions.end(),
                     [&](const Reduction& reduction) { return reduction.launched < last; });
}

std::chrono::nanoseconds SyncReport::skew(const Step& step) {
  Time first = Time::max();
  Time last{};
  for (const DeviceTimes& times : step.devices) {
    if (times.backward_end == Time{}) continue;
    first = std::min(first, times.backward_end);
    last = std::max(last, times.backward_end);
  }
  return last == Time{} ? std::chrono::nanoseconds(0) : last - first;
}

void write_chrome_trace(const SyncReport& report, const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), &std::fclose);
  if (!file) raise<DataError>("[trace] cannot write {}", path);
  Time origin = Time::max();
  for (const auto& step : report.steps)
    for (const auto& times : step.devices)
      if (times.begin != Time{}) origin = std::min(origin, times.begin);
  TraceWriter writer(file.get(), origin == Time::max() ? Time{} : origin);
  const int world = world_of(report.devices);
  for (std::size_t d = 0; d < report.devices.size(); ++d) writer.track(d, to_string(report.devices[d], world));
  writer.track(report.devices.size(), "reductions");
  for (const auto& step : report.steps) write_step(writer, report, step);
  writer.close();
  if (std::fflush(file.get()) != 0 || std::ferror(file.get()) != 0) raise<DataError>("[trace] writing {} failed", path);
}

}  // namespace tutti
