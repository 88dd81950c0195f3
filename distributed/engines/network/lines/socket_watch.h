// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/owned_descriptor.h>
#include <tutti/distributed/engines/network/lines/line_watch.h>

#include <atomic>
#include <vector>

struct pollfd;

namespace tutti {

/// The kernel's watch over sockets; its lines are SocketLines.
class SocketWatch final : public LineWatch {
 public:
  SocketWatch();  ///< throws Error if the system has no descriptor left
  ~SocketWatch() override;

  bool wait(std::span<Watched>, std::chrono::milliseconds most) override;
  void wake() noexcept override;
  bool polls() const noexcept override { return false; }
  void give_up(std::string_view) noexcept override {}

 private:
  OwnedDescriptor wake_;
  std::atomic<bool> woken_{false};
  std::vector<pollfd> sockets_;  // belongs to the thread that waits
};

}  // namespace tutti
