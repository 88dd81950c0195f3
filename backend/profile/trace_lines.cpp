// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/profile/trace_lines.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace tutti {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) result += c;
  }
  return result;
}

void TraceLines::name_process(const std::string& name) {
  line(fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":"{}"}}}})", process_, escaped(name)));
}

void TraceLines::name_track(std::size_t track, const std::string& name) {
  line(fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})", process_, track,
                   escaped(name)));
}

void TraceLines::span(std::size_t track, const std::string& name, std::chrono::nanoseconds begin,
                      std::chrono::nanoseconds end, const std::string& arguments) {
  line(fmt::format(R"({{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
                   escaped(name), process_, track, microseconds(begin),
                   std::max(0.0, microseconds(end) - microseconds(begin)), arguments));
}

void TraceLines::instant(std::size_t track, const std::string& name, std::chrono::nanoseconds at) {
  line(fmt::format(R"({{"name":"{}","ph":"i","s":"t","pid":{},"tid":{},"ts":{:.3f}}})", escaped(name), process_, track,
                   microseconds(at)));
}

double TraceLines::microseconds(std::chrono::nanoseconds time) const {
  return std::chrono::duration<double, std::micro>(time - origin_).count();
}

void TraceLines::line(const std::string& event) {
  if (!text_.empty()) text_ += ",\n";
  text_ += event;
}

void write_trace(const std::string& events, const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), &std::fclose);
  if (!file) raise<DataError>("[trace] cannot write {}", path);
  std::fputs("{\"traceEvents\":[\n", file.get());
  std::fputs(events.c_str(), file.get());
  std::fputs("\n],\"displayTimeUnit\":\"ms\"}\n", file.get());
  if (std::fflush(file.get()) != 0 || std::ferror(file.get()) != 0) raise<DataError>("[trace] writing {} failed", path);
}

}  // namespace tutti
