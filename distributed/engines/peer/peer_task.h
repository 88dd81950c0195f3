// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/stream.h>
#include <tutti/distributed/collectives/engine_task.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace tutti {

class PeerFlight;

/// A collective that is queued on the devices. Whoever joins it waits for its events; it counts as finished when
/// somebody next looks at what is in flight, and lets go then of what the devices used.
class PeerTask final : public EngineTask {
 public:
  explicit PeerTask(std::shared_ptr<PeerFlight> flight) : flight_(std::move(flight)) {}

  void keep(Array array) { arrays_.push_back(std::move(array)); }
  void keep(const std::vector<Array>& arrays) { arrays_.insert(arrays_.end(), arrays.begin(), arrays.end()); }
  void queued(std::vector<Event> done) { done_ = std::move(done); }

  void join(Device) override;
  std::vector<Event> on_streams() const override { return done_; }
  void wait_past(std::uint32_t progress) noexcept override;

  const std::vector<Event>& done() const noexcept { return done_; }  ///< one for each GPU's part
  bool all_done() const { return std::ranges::all_of(done_, &Event::ready); }
  void end(std::exception_ptr error = {}) {
    arrays_.clear();
    finish(std::move(error));
  }

 private:
  const std::shared_ptr<PeerFlight> flight_;
  std::vector<Array> arrays_;
  std::vector<Event> done_;  // never written once others know the task
};

}  // namespace tutti
