// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/process_group/first_words.h>
#include <tutti/distributed/process_group/process_connections.h>
#include <tutti/distributed/processes/control_channel.h>
#include <tutti/distributed/processes/job_secret.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti {

class ControlLink;
struct NetworkMeeting;

/// The processes of a job over the control channel, which they find each other by, and one of the engines between them.
class JobProcesses final : public ProcessConnections {
 public:
  /// Waits until all have come; alone, which only who asks for MPI makes, it looks whether there is any. Throws as
  /// ProcessGroup::from_environment.
  JobProcesses(const LaunchPlace&, const ProcessOptions&);

  ProcessGroup::Connection connect(std::span<const Device>, std::chrono::milliseconds patience) override;
  const char* engine() const noexcept override { return engine_; }

 private:
  struct Meeting;

  std::string address_of(int rank) const;
  std::string memory_name(const std::string& run) const;
  NetworkMeeting network_meeting(const std::string& run, const std::vector<FirstWords>&) const;
  void check(std::span<const Device>) const;
  Meeting meet(const FirstWords& own) const;
  ProcessGroup::Connection connect_cpus(std::span<const Device>, std::chrono::milliseconds patience);
  ProcessGroup::Connection connect_gpus(std::span<const Device>, std::chrono::milliseconds patience);

  LaunchPlace place_;
  ProcessOptions options_;
  JobSecret secret_;
  std::shared_ptr<ControlChannel> channel_;  // null: alone; the group's link has it, too
  const char* engine_ = "none";
};

}  // namespace tutti
