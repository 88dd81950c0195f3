// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/group_results.h>

#include <tutti/backend/process/error_text.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/replicas/group_texts.h>

#include <charconv>
#include <sstream>

namespace tutti {

std::string text_of_metrics(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += fmt::format("{} {}\n", value, name);
  return text;
}

Metrics metrics_of(const std::string& text) {
  std::istringstream lines(text);
  Metrics metrics;
  for (std::string line; std::getline(lines, line);) {
    const char* const end = line.data() + line.size();
    double value = 0;
    const char* const at = std::from_chars(line.data(), end, value).ptr;
    metrics[std::string(at + 1, end)] = value;
  }
  return metrics;
}

Metrics first_of_devices(GradientSync& group, Device device, const std::optional<Metrics>& own) {
  return metrics_of(gather_texts(group, device, own ? std::optional(text_of_metrics(*own)) : std::nullopt,
                                 "the means of an evaluation")
                        .at(0));
}

std::exception_ptr error_of_any(GradientSync& group, Device device, const std::string& name,
                                std::exception_ptr own) noexcept {
  try {
    const auto texts = gather_texts(
        group, device, own ? std::optional(fmt::format("{} failed: {}", name, text_of(own))) : std::nullopt,
        "the errors of the last hooks");
    if (!texts.empty()) await_gathered(group, device);
    if (!own && !texts.empty()) raise<SyncError>("[training] {}", texts.front());
  } catch (...) {
    if (!own) return std::current_exception();
  }
  return own;
}

}  // namespace tutti
