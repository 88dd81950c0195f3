// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/run_record.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/build_facts/build_facts.h>
#include <tutti/backend/process/environment.h>
#include <tutti/backend/process/host_files.h>
#include <tutti/exchange/files/file_descriptor.h>
#include <tutti/version.h>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>

#include <exception>
#include <mutex>
#include <optional>

namespace tutti {

namespace {

constexpr std::size_t kMostMessages = 200;

using Json = nlohmann::ordered_json;

std::string now_text() { return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(std::chrono::system_clock::now())); }

Json object_of(const RunDescription::Facts& facts) {
  Json object = Json::object();
  for (const auto& [name, value] : facts) object.emplace(name, value);  // of two the first
  return object;
}

/// What tells the library and the machine of two runs apart. What the system does not say is left out.
RunDescription::Facts surroundings() {
  const BuildFacts build = build_facts();
  RunDescription::Facts facts{
      {"tutti", TUTTI_VERSION}, {"build", build.build}, {"compiler", build.compiler}, {"kernels", build.level}};
  if (utsname names{}; uname(&names) == 0) {
    facts.emplace_back("host", static_cast<const char*>(names.nodename));
    facts.emplace_back("system", fmt::format("{} {}", static_cast<const char*>(names.sysname),
                                             static_cast<const char*>(names.release)));
  }
  if (auto model = field_of(text_of_file("/proc/cpuinfo"), "model name"); !model.empty())
    facts.emplace_back("processor", std::move(model));
  for (auto& variable : shown_variables(is_own_variable)) facts.push_back(std::move(variable));
  return facts;
}

/// None where there is no dense gradient, and where it cannot be read, as of a group that has failed.
std::optional<double> gradient_norm(const Tensor& parameter) try {
  if (!parameter.requires_grad() || parameter.has_sparse_grad()) return std::nullopt;
  const Tensor gradient = parameter.grad();
  return gradient.defined() ? std::optional(norm(gradient.cast(DType::f64)).item<double>()) : std::nullopt;
} catch (const std::exception&) {
  return std::nullopt;
}

const char* name_of(LogLevel level) {
  return level == LogLevel::info ? "info" : level == LogLevel::warning ? "warning" : "error";
}

const char* name_of(RunRecord::Outcome outcome) {
  using enum RunRecord::Outcome;
  return outcome == finished ? "finished" : outcome == interrupted ? "interrupted" : "failed";
}

}  // namespace

struct RunRecord::Content {
  std::mutex mutex;
  Json json;
};

RunRecord::RunRecord(std::string path, RunDescription description)
    : path_(std::move(path)), content_(std::make_unique<Content>()) {
  for (auto& fact : surroundings()) description.environment.push_back(std::move(fact));
  content_->json = {{"program", description.program},
                    {"started", now_text()},
                    {"options", object_of(description.options)},
                    {"environment", object_of(description.environment)},
                    {"messages", Json::array()}};
  write();
}

RunRecord::~RunRecord() = default;

void RunRecord::add_message(LogLevel level, std::string_view text) {
  const std::scoped_lock lock(content_->mutex);
  Json& messages = content_->json["messages"];
  if (messages.size() >= kMostMessages) {
    Json& more = content_->json["more_messages"];
    more = more.is_null() ? 1 : more.get<int>() + 1;
  } else {
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - began_;
    messages.push_back({{"level", name_of(level)}, {"text", text}, {"seconds", since.count()}});
  }
  write();
}

void RunRecord::set_parameters(const NamedTensors& parameters) {
  const NoGrad no_grad;
  Json rows = Json::array();
  for (const auto& [name, parameter] : parameters) {
    Json row{
        {"name", name}, {"shape", Json::array()}, {"size", parameter.size()}, {"dtype", to_string(parameter.dtype())}};
    for (const std::int64_t length : parameter.shape()) row["shape"].push_back(length);
    if (const auto length = gradient_norm(parameter)) row["gradient_norm"] = *length;
    rows.push_back(std::move(row));
  }
  const std::scoped_lock lock(content_->mutex);
  content_->json["parameters"] = std::move(rows);
  write();
}

void RunRecord::end(Outcome outcome, std::string_view reason) {
  const std::scoped_lock lock(content_->mutex);
  content_->json["ended"] = now_text();
  content_->json["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  content_->json["outcome"] = name_of(outcome);
  if (!reason.empty()) content_->json["reason"] = reason;
  write();
}

void RunRecord::write() {
  const std::string text = content_->json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  AtomicFile file(path_);
  file.file().write(text.data(), text.size());
  file.commit();
}

}  // namespace tutti
