// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/lines/doorbell.h>
#include <tutti/distributed/engines/network/lines/line_watch.h>
#include <tutti/distributed/engines/network/mpi/mpi_channel.h>

#include <atomic>
#include <memory>
#include <vector>

namespace tutti {

/// A watch that looks again and again, as MPI wakes nobody: without sleep for a while where somebody waits, and a
/// thousand times a second at least. Its lines are MpiLines.
class MpiWatch final : public LineWatch {
 public:
  explicit MpiWatch(std::shared_ptr<MpiChannel>);

  bool take_wake() noexcept override { return woken_.exchange(false, std::memory_order_seq_cst); }
  bool wait(std::span<Watched>, std::chrono::milliseconds most) override;
  void wake() noexcept override;
  bool polls() const noexcept override { return true; }
  /// Ends the job: others may still read memory that is used for something else then, or write to it.
  void give_up(std::string_view reason) noexcept override;

 private:
  std::shared_ptr<MpiChannel> channel_;
  std::atomic<bool> woken_{false};
  Doorbell bell_;
  std::vector<MpiRequest*> awaited_;  // belongs to the thread that waits
};

}  // namespace tutti
