// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/launch_plan.h>

#include <tutti/command/launch/launch_error.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace tutti::launch {

namespace {

constexpr int kMostPorts = 65535;

void check_range(const char* option, int value, int least, int most) {
  if (value < least || value > most) refuse("{} is {}: it must be from {} to {}", option, value, least, most);
}

}  // namespace

bool is_rendezvous(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return false;
  std::string_view host = std::string_view(text).substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  int port = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + colon + 1, last, port);
  return error == std::errc() && end == last && port >= 1 && port <= kMostPorts && !host.empty() &&
         host.find_first_of(bracketed ? "[] " : ":[] ") == std::string_view::npos;
}

void check(const LaunchOptions& options) {
  if (options.program.empty() || options.program.front().empty())
    refuse("there is no program to start: tutti launch [OPTIONS] -- PROGRAM [ARGUMENTS]");
  check_range("-n", options.processes, 1, kMostProcessesOfHost);
  check_range("--hosts", options.hosts, 1, kMostProcesses / options.processes);
  check_range("--host", options.host, 0, options.hosts - 1);
  if (!(options.grace_seconds >= 0 && options.grace_seconds <= kLongestGrace))
    refuse("--grace is {}: it must be from 0 to {} seconds", options.grace_seconds, kLongestGrace);
  if (!options.rendezvous.empty() && !is_rendezvous(options.rendezvous))
    refuse("--rendezvous is \"{}\": it must be \"host:port\", of IPv6 \"[address]:port\", with a port from 1 to {}",
           options.rendezvous, kMostPorts);
  if (options.hosts == 1) return;
  if (options.rendezvous.empty()) refuse("--hosts {} needs --rendezvous, the same on all hosts", options.hosts);
  if (options.secret_file.empty()) refuse("--hosts {} needs --secret-file, the same on all hosts", options.hosts);
}

std::vector<ProcessPlan> plan_processes(const LaunchOptions& options, const JobIdentity& job) {
  const int size = options.processes * options.hosts;
  const std::size_t width = std::to_string(size - 1).size();
  std::vector<ProcessPlan> plans;
  for (int local_rank = 0; local_rank < options.processes; ++local_rank) {
    const int rank = options.host * options.processes + local_rank;
    plans.push_back({.rank = rank,
                     .prefix = options.prefix ? fmt::format("[{:>{}}] ", rank, width) : "",
                     .log = options.logs.empty() ? "" : fmt::format("{}/rank-{}.log", options.logs, rank),
                     .variables = {{"TUTTI_RANK", std::to_string(rank)},
                                   {"TUTTI_WORLD_SIZE", std::to_string(size)},
                                   {"TUTTI_LOCAL_RANK", std::to_string(local_rank)},
                                   {"TUTTI_LOCAL_WORLD_SIZE", std::to_string(options.processes)},
                                   {"TUTTI_RENDEZVOUS", job.rendezvous},
                                   {"TUTTI_SECRET_FILE", job.secret_file},
                                   {"TUTTI_JOB", job.job}}});
  }
  return plans;
}

std::vector<std::string> merged_environment(std::span<const std::string> inherited,
                                            std::span<const Variable> variables) {
  const auto is_replaced = [&](const std::string& entry) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    // A secret of an outer job beside the file of this one would leave open which of them counts.
    return name == "TUTTI_SECRET" ||
           std::ranges::any_of(variables, [&](const Variable& own) { return own.first == name; });
  };
  std::vector<std::string> merged;
  std::ranges::remove_copy_if(inherited, std::back_inserter(merged), is_replaced);
  for (const auto& [name, value] : variables) merged.push_back(name + "=" + value);
  return merged;
}

}  // namespace tutti::launch
