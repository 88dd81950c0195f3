// SPDX-License-Identifier: Apache-2.0
#include <tutti/bench/suite/run_file.h>

#include <tutti/backend/error.h>
#include <tutti/exchange/files/file_descriptor.h>
#include <tutti/version.h>

#include <nlohmann/json.hpp>
#include <sched.h>

#include <chrono>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace tutti::bench {

namespace {

namespace fs = std::filesystem;

std::string time_text(const char* format) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, format, &parts));
}

std::string processor_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  return "unknown processor";
}

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

/// The file that a link names. What is no regular file, as a device, would be replaced by one.
std::string target_of(std::string path) {
  std::error_code error;
  if (const fs::path target = fs::weakly_canonical(path, error); !error && fs::exists(target, error)) {
    if (!fs::is_regular_file(target, error)) throw DataError(path + " is there, and no file that can be replaced");
    return target.string();
  }
  return path;
}

std::string file_part(const std::string& label) {
  constexpr std::size_t kMost = 80;
  std::string part;
  for (const char each : std::string_view(label).substr(0, kMost))
    part += std::isalnum(static_cast<unsigned char>(each)) != 0 ? each : '-';
  return part.empty() ? part : "-" + part;
}

}  // namespace

struct RunFile::Content {
  nlohmann::ordered_json json;
};

RunFile::RunFile(std::string path, const std::string& label, const Options& options,
                 const std::optional<ProcessorLimits>& limits)
    : path_(target_of(std::move(path))), content_(std::make_unique<Content>()) {
  auto& context = content_->json["context"];
  context = {{"time", time_text("%Y-%m-%dT%H:%M:%S+00:00")},
             {"label", label},
             {"processor", processor_model()},
             {"cores", cores()},
             {"tutti", TUTTI_VERSION},
             {"ratio_of", options.processor_time ? "processor time" : "time"},
             {"complete", false}};
  if (limits) {
    context["limits"]["FLOP/s"] = limits->flops;
    for (const CopyLimit& copy : limits->copies)
      context["limits"]["copies"][std::to_string(copy.bytes)] = copy.bytes_per_second;
  }
  content_->json["benchmarks"] = nlohmann::ordered_json::array();
  if (const fs::path folder = fs::path(path_).parent_path(); !folder.empty()) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw DataError("cannot make the folder " + folder.string() + ": " + error.message());
  }
  write();
}

RunFile::~RunFile() = default;

void RunFile::add(const Measurement& measured) {
  constexpr double kNanoseconds = 1e9;
  for (std::size_t i = 0; i < measured.samples.size(); ++i) {
    const Sample& sample = measured.samples[i];
    nlohmann::ordered_json entry = {{"name", measured.name},
                                    {"run_name", measured.name},
                                    {"run_type", "iteration"},
                                    {"repetitions", measured.samples.size()},
                                    {"repetition_index", i},
                                    {"threads", 1},
                                    {"iterations", measured.calls},
                                    {"real_time", sample.seconds * kNanoseconds},
                                    {"cpu_time", sample.processor_seconds * kNanoseconds},
                                    {"time_unit", "ns"},
                                    {"array_allocations", measured.array_allocations}};
    if (measured.heap_allocations) entry["heap_allocations"] = *measured.heap_allocations;
    if (measured.work.flops > 0) entry["FLOP/s"] = measured.work.flops / sample.seconds;
    if (measured.work.bytes > 0) entry["bytes_per_second"] = measured.work.bytes / sample.seconds;
    if (!measured.baseline.empty()) {
      entry["baseline_seconds"] = measured.baseline[i].seconds;
      entry["ratio"] = measured.ratios[i];
    }
    content_->json["benchmarks"].push_back(std::move(entry));
  }
  write();
}

void RunFile::add_failure(const std::string& name, const std::string& message) {
  content_->json["benchmarks"].push_back({{"name", name},
                                          {"run_name", name},
                                          {"run_type", "iteration"},
                                          {"error_occurred", true},
                                          {"error_message", message}});
  write();
}

void RunFile::complete() {
  content_->json["context"]["complete"] = true;
  write();
}

void RunFile::write() const {
  // Words that are no UTF-8 are replaced.
  const std::string text = content_->json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  AtomicFile file(path_);
  file.file().write(text.data(), text.size());
  file.commit();
}

std::string new_file_name(const std::string& folder, const std::string& label) {
  const std::string start = (fs::path(folder) / (time_text("%Y%m%dT%H%M%SZ") + file_part(label))).string();
  std::string path = start + ".json";
  std::error_code error;
  for (int n = 2; fs::exists(path, error); ++n) path = start + "-" + std::to_string(n) + ".json";
  return path;
}

}  // namespace tutti::bench
