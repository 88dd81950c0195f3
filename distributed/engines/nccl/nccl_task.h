// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/memory/storage.h>
#include <tutti/backend/stream.h>
#include <tutti/distributed/collectives/engine_task.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

class NcclGroup;

/// A collective of NCCL's: requested, launched, finished. Whoever joins it waits until it is launched, and leaves the
/// rest to events. Written by the communicator's thread.
class NcclTask final : public EngineTask {
 public:
  static constexpr std::uint32_t kLaunched = 1;

  using DeviceEvents = std::vector<std::pair<Device, Event>>;

  /// `name`: for errors. `members`: the devices that the group has when it is requested.
  NcclTask(std::string name, std::function<void(NcclGroup&, NcclTask&)> launch,
           std::shared_ptr<const std::vector<Device>> members)
      : name_(std::move(name)), launch_(std::move(launch)), members_(std::move(members)) {}

  /// Returns when the task has been launched, which needs the peers' submissions and no device; the rest is order
  /// between streams.
  void join(Device) override;
  std::vector<Event> on_streams() const override;  ///< none before it is launched

  void launch(NcclGroup& group) {
    launch_(group, *this);
    launch_ = nullptr;
    advance(kLaunched);
  }
  bool launched() const noexcept { return progress() >= kLaunched; }
  const std::string& name() const noexcept { return name_; }
  const std::vector<Device>& members() const noexcept { return *members_; }

  /// Keeps what is used until the devices have done their work.
  void keep(Array array) { arrays_.push_back(std::move(array)); }
  void keep(std::unique_ptr<Storage> workspace) { workspaces_.push_back(std::move(workspace)); }

  // Somebody goes on who relies on it, unless he finds it finished: either he sees the end, or who ends it sees him.
  void set_joined() noexcept {
    joined_.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  bool joined() const noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return joined_.load(std::memory_order_relaxed);
  }

  void set_begun(Device device, Event event) { begun_.emplace_back(device, std::move(event)); }
  void set_done(Device device, Event event) { done_.emplace_back(device, std::move(event)); }
  const DeviceEvents& begun() const noexcept { return begun_; }  ///< valid once launched; none: nothing is exchanged
  const DeviceEvents& done() const noexcept { return done_; }    ///< valid once launched
  bool all_done() const {
    return std::ranges::all_of(done_, [](const auto& each) { return each.second.ready(); });
  }
  static std::vector<Device> not_past(const DeviceEvents& events) {
    std::vector<Device> devices;
    for (const auto& [device, event] : events)
      if (!event.ready()) devices.push_back(device);
    return devices;
  }
  void end(std::exception_ptr error = {}) {
    launch_ = nullptr;
    let_go();
    finish(std::move(error));
  }
  /// Ends the task without letting go of what was kept: giving memory back may wait for the devices, which may hang.
  void end_keeping(std::exception_ptr error) {
    launch_ = nullptr;
    finish(std::move(error));
  }
  void let_go() noexcept {
    arrays_.clear();
    workspaces_.clear();
  }

 private:
  std::string name_;
  std::function<void(NcclGroup&, NcclTask&)> launch_;
  std::shared_ptr<const std::vector<Device>> members_;
  std::atomic<bool> joined_{false};
  std::vector<Array> arrays_;
  std::vector<std::unique_ptr<Storage>> workspaces_;
  DeviceEvents begun_;  // events on the communication streams, before what devices wait for each other in
  DeviceEvents done_;   // events on the communication streams of those that took part
};

}  // namespace tutti
