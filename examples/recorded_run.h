// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/log.h>
#include <tutti/train/reporting/run_record.h>

#include <fmt/format.h>

#include <exception>
#include <memory>

namespace examples {

/// Trains, and has the record, where there is one, say how that ended, with the parameters that there were then. What
/// cannot be written there is logged: the result of the training, or its error, stays.
template <class Train, class Parameters>
auto recorded(const std::unique_ptr<tutti::RunRecord>& record, const Train& train, const Parameters& parameters) {
  using Outcome = tutti::RunRecord::Outcome;
  const auto note = [&record](const auto& changes) {
    try {
      if (record) changes();
    } catch (const std::exception& error) {
      tutti::log_message(tutti::LogLevel::warning, fmt::format("the run's record is not whole: {}", error.what()));
    }
  };
  try {
    auto result = train();
    note([&] {
      record->set_parameters(parameters());
      record->end(result.interrupted.empty() ? Outcome::finished : Outcome::interrupted, result.interrupted);
    });
    return result;
  } catch (const std::exception& error) {
    note([&] { record->end(Outcome::failed, error.what()); });
    throw;
  }
}

}  // namespace examples
