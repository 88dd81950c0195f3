// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/test_devices.h>

#include <tutti/backend/cpu/cpu_backend.h>
#include <tutti/backend/process/environment.h>
#include <tutti/backend/registry.h>

#include <cctype>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace tutti {
namespace {

DeviceKind kind_from_environment() {
  const std::string name = environment_text("TUTTI_TEST_DEVICE").value_or("cpu");
  return name == "foreign" ? register_backend(name, std::make_unique<CpuBackend>()) : kind_named(name);
}

DeviceKind test_kind() {
  static const DeviceKind kind = kind_from_environment();
  return kind;
}

const char* kept(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string>& texts = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return texts.insert(text).first->c_str();
}

void erase(std::string& text, std::string_view part, std::string_view end) {
  const std::size_t begin = text.find(part);
  if (begin == std::string::npos) return;
  const std::size_t behind = end.empty() ? std::string::npos : text.find(end, begin);
  text.erase(begin, behind == std::string::npos ? behind : behind + end.size() - begin);
}

}  // namespace

Device test_device(std::size_t index) { return {test_kind(), static_cast<std::uint16_t>(index)}; }

std::vector<Device> test_devices(std::size_t count) {
  std::vector<Device> devices;
  for (std::size_t i = 0; i < count; ++i) devices.push_back(test_device(i));
  return devices;
}

const char* as_tested(const char* text) {
  if (tests_run_on_cpu()) return text;
  const std::string_view cpu = "cpu:";
  const std::string kind = std::string(kind_name(test_kind())) + ":";
  std::string named = text;
  for (std::size_t at = named.find(cpu); at != std::string::npos; at = named.find(cpu, at + kind.size()))
    if (at == 0 || std::isalnum(static_cast<unsigned char>(named[at - 1])) == 0) named.replace(at, cpu.size(), kind);
  return kept(named);
}

const char* index_error(const char* text) {
  if (test_kind() != DeviceKind::cuda) return text;
  std::string told = text;
  erase(told, " at [", "]");
  erase(told, ", and not the ignored", "");
  if (told.starts_with("[")) told.insert(told.find(']') + 2, to_string(test_device()) + ": ");
  return kept(told);
}

}  // namespace tutti
