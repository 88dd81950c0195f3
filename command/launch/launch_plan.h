// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti::launch {

/// Options of `tutti launch`.
struct LaunchOptions {
  int processes = 1;          ///< started on this host
  int hosts = 1;              ///< each of as many processes
  int host = 0;               ///< number of this one, below `hosts`
  std::string rendezvous;     ///< "host:port" where rank 0 waits; empty: a free port of 127.0.0.1
  std::string secret_file;    ///< empty: one is made
  std::string job;            ///< name of the job; empty: one is made
  double grace_seconds = 10;  ///< time for ranks to end by themselves once another failed, and again after SIGTERM
  bool prefix = true;         ///< lines of output begin with their rank
  std::string logs{};         ///< folder of a file for each rank's output; empty: there is none
  std::vector<std::string> program;  ///< its name and arguments
};

inline constexpr int kMostProcessesOfHost = 4096;
inline constexpr int kMostProcesses = 1 << 20;  ///< limit of a job, as programs read it (launch_environment.h)
inline constexpr double kLongestGrace = 1e6;    ///< seconds

/// Throws LaunchError for options that cannot be meant together, or are out of range; names the option.
void check(const LaunchOptions&);

/// True for "host:port" or, of IPv6, "[address]:port", with a port from 1 to 65535.
bool is_rendezvous(const std::string&);

using Variable = std::pair<std::string, std::string>;  ///< name and value

/// One process that is to be started.
struct ProcessPlan {
  int rank = 0;                     ///< number in the job
  std::string prefix;               ///< begins its lines, of the same width for all ranks of the job; may be empty
  std::string log;                  ///< path of the file that gets its output, too; may be empty
  std::vector<Variable> variables;  ///< tell the program its place
};

/// Values that all processes share.
struct JobIdentity {
  std::string rendezvous;
  std::string secret_file;
  std::string job;
};

/// The processes of this host, by rank.
std::vector<ProcessPlan> plan_processes(const LaunchOptions&, const JobIdentity&);

/// The environment of a process, as "NAME=value": what is inherited, without what would contradict `variables`.
std::vector<std::string> merged_environment(std::span<const std::string> inherited, std::span<const Variable>);

}  // namespace tutti::launch
