// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/profile.h>

#include <tutti/backend/profile/kernel_words.h>
#include <tutti/backend/profile/trace_lines.h>
#include <tutti/backend/raise.h>

#include <algorithm>

namespace tutti {
namespace {

/// What a viewer shows beside a kernel: members of a JSON object.
std::string arguments_of(const ProfiledKernel& kernel) {
  std::string text = fmt::format(R"("device":"{}","operands":"{}","bytes read":{},"bytes written":{})",
                                 escaped(to_string(kernel.device)), operands_text(kernel.operands), kernel.bytes_read,
                                 kernel.bytes_written);
  if (kernel.flops > 0) text += fmt::format(R"(,"flops":{})", kernel.flops);
  if (!kernel.operation.empty())
    text += fmt::format(R"(,"{}":"{}")", kernel.backward ? "gradient of" : "operation", escaped(kernel.operation));
  return text;
}

}  // namespace

void Profile::write_trace(const std::string& path) const {
  const std::vector<ProfiledRun>& all = runs();
  std::size_t threads = 0;
  auto origin = std::chrono::nanoseconds::max();
  for (const ProfiledRun& run : all) {
    threads = std::max(threads, run.thread + 1);
    origin = std::min(origin, run.begin);
  }
  TraceLines lines(0, origin);
  for (std::size_t thread = 0; thread < threads; ++thread) lines.name_track(thread, fmt::format("thread {}", thread));
  for (const ProfiledRun& run : all) {
    lines.span(run.thread, "profiled", run.begin, run.begin + run.duration);
    for (const ProfiledKernel& kernel : run.kernels) {
      const auto begin = run.begin + kernel.begin;
      lines.span(run.thread, kernel.name, begin, begin + kernel.duration, arguments_of(kernel));
    }
  }
  tutti::write_trace(lines.take(), path);
}

}  // namespace tutti
