// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/reporting/run_record.h>

#include <CLI/CLI.hpp>

#include <thread>

namespace examples {

/// The options of a command line with their values, given or by default; those that have none are left out.
inline tutti::RunDescription::Facts given_options(const CLI::App& app) {
  tutti::RunDescription::Facts facts;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option == app.get_help_ptr()) continue;
    const std::string value =
        option->count() == 0 ? option->get_default_str() : CLI::detail::join(option->results(), " ");
    if (!value.empty()) facts.emplace_back(option->get_lnames().front(), value);
  }
  return facts;
}

/// What a run's record says of where it runs.
inline tutti::RunDescription::Facts surroundings(const std::string& devices, int processes) {
  return {{"devices", devices},
          {"processes", std::to_string(processes)},
          {"processor threads of the machine", std::to_string(std::thread::hardware_concurrency())}};
}

}  // namespace examples
