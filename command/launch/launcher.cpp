// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/launcher.h>

#include <tutti/command/launch/child_process.h>
#include <tutti/command/launch/free_port.h>
#include <tutti/command/launch/job_secret.h>
#include <tutti/command/launch/launch_error.h>
#include <tutti/command/launch/output/rank_log.h>
#include <tutti/command/launch/rank_processes.h>
#include <tutti/command/launch/running_job.h>
#include <tutti/command/launch/signal_mask.h>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace tutti::launch {

namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::size_t kJobNameBytes = 8;

// Otherwise a pipe would get the number of an output that the launcher was started without.
void open_standard_files() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(number, F_GETFD) < 0 && open("/dev/null", O_RDWR) != number) raise_errno("open /dev/null");
}

std::vector<std::string> inherited_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

// Several hosts have nothing else in common that tells their job from others.
std::string job_name(const LaunchOptions& options) {
  if (!options.job.empty()) return options.job;
  return options.hosts > 1 ? options.rendezvous : random_hex(kJobNameBytes);
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) raise_errno("make the folder " + folder.string(), error.value());
}

// The files of the ranks first: a process is started only where all of them are there.
std::vector<RunningJob::Rank> start_ranks(const LaunchOptions& options, const JobIdentity& job,
                                          const SignalMask& signals, RankProcesses& processes) {
  const std::vector<std::string> inherited = inherited_environment();
  const std::vector<ProcessPlan> plans = plan_processes(options, job);
  std::vector<RunningJob::Rank> ranks;
  if (!options.logs.empty()) make_folder(options.logs);
  for (const ProcessPlan& plan : plans)
    ranks.push_back({.rank = plan.rank,
                     .prefix = plan.prefix,
                     .log = plan.log.empty() ? nullptr : std::make_unique<RankLog>(plan.log)});
  for (std::size_t i = 0; i < plans.size(); ++i) {
    ranks[i].process = start_child(options.program, merged_environment(inherited, plans[i].variables), signals);
    processes.add(ranks[i].process.pid);
  }
  return ranks;
}

}  // namespace

int launch(const LaunchOptions& options) {
  check(options);
  open_standard_files();
  SignalMask signals;  // from here on a signal does not leave the secret behind
  std::optional<JobSecret> own_secret;
  if (options.secret_file.empty()) own_secret.emplace();
  const JobIdentity job{
      .rendezvous = options.rendezvous.empty() ? free_local_rendezvous() : options.rendezvous,
      .secret_file = own_secret ? own_secret->file() : checked_secret_file(options.secret_file),
      .job = job_name(options),
  };
  RankProcesses processes;
  std::vector<RunningJob::Rank> ranks = start_ranks(options, job, signals, processes);
  const auto grace = std::chrono::duration_cast<LaunchPolicy::Clock::duration>(Seconds(options.grace_seconds));
  return RunningJob(std::move(ranks), processes, grace, signals).run();
}

}  // namespace tutti::launch
