// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/log.h>
#include <tutti/train/reporting/run_record.h>

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string_view>

namespace examples {

/// Has the record, where there is one, get the warnings and errors that the library says, which standard error shows as
/// ever. What hooks draw there names it as their output: where there is a log sink, they would write lines to that.
class RecordedLog {
 public:
  explicit RecordedLog(const std::unique_ptr<tutti::RunRecord>& record) {
    if (!record) return;
    tutti::set_log_sink([&record = *record](tutti::LogLevel level, std::string_view text) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
      if (level != tutti::LogLevel::info) record.add_message(level, text);
    });
  }
  ~RecordedLog() { tutti::set_log_sink({}); }
  RecordedLog(const RecordedLog&) = delete;
  RecordedLog& operator=(const RecordedLog&) = delete;
};

/// Trains, and has the record, where there is one, say what the library warned of and how that ended, with the
/// parameters that there were then. What cannot be written there is logged: the result of the training, or its error,
/// stays.
template <class Train, class Parameters>
auto recorded(const std::unique_ptr<tutti::RunRecord>& record, const Train& train, const Parameters& parameters) {
  using Outcome = tutti::RunRecord::Outcome;
  const RecordedLog log(record);
  const auto note = [&record](const auto& change) {
    try {
      if (record) change();
    } catch (const std::exception& error) {
      tutti::log_message(tutti::LogLevel::warning, fmt::format("the run's record is not whole: {}", error.what()));
    }
  };
  const auto end = [&](Outcome outcome, std::string_view reason) {
    note([&] { record->end(outcome, reason); });
    note([&] { record->set_parameters(parameters()); });
  };
  try {
    auto result = train();
    end(result.interrupted.empty() ? Outcome::finished : Outcome::interrupted, result.interrupted);
    return result;
  } catch (const std::exception& error) {
    end(Outcome::failed, error.what());
    throw;
  }
}

}  // namespace examples
