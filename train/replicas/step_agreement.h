// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/distributed/sync_options.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// True for a SyncError, as devices get for another one's failure.
bool is_echo(const std::exception_ptr&) noexcept;

/// Agreement of the devices of one process (of several: GroupAgreement), without a collective: the step before which
/// all of them stop, and whether any of them still has data, or was stopped in an evaluation. Devices count the same
/// steps; how far one is ahead does not matter. Each device asks on its own thread; `request_stop` and `fail` on any.
class StepAgreement {
 public:
  /// `waits`: its warn_after, warn and fail_after hold for every wait for another device; without `warn` nobody is
  /// warned.
  explicit StepAgreement(std::vector<Device> devices, const SyncOptions& waits = {});
  StepAgreement(const StepAgreement&) = delete;
  StepAgreement& operator=(const StepAgreement&) = delete;
  virtual ~StepAgreement() = default;

  /// Returns the reason to stop before this device's step, at whose beginning it is called, if there is one. All
  /// devices hear it at the same step, of those at which they `may_stop`, the same for all. SyncError naming the device
  /// that failed, if one has.
  virtual std::optional<std::string> stops_before(std::size_t device, std::int64_t step, bool may_stop = true);
  /// All devices stop before the first step that none has begun.
  void request_stop(std::string reason);

  /// Says whether this device has data for its next step, and returns whether any device has. Waits for the others only
  /// if it has none itself: until one has, or all said that they have none. All devices call it equally often. Throws
  /// SyncError naming who is missing after the deadline, or the device that failed. The first to have
  /// waited for warn_after warns in the same words.
  virtual bool any_data(std::size_t device, bool has_data);
  /// The same, of a window of data.
  virtual bool any_window(std::size_t device, bool has_window) { return any_data(device, has_window); }
  /// Returns when all devices have called it, or throws the same: what was asked for before, all hear. `doing`: what
  /// this device waits for, in the error, as "is to begin".
  virtual void meet(std::size_t device, const char* doing);

  bool stop_is_requested() const;
  /// Says whether this device's evaluation was stopped, and returns the reason if any device's was. Waits as any_data
  /// does, also for devices whose evaluation is longer. All devices call it equally often, in the same order with
  /// any_data.
  virtual std::optional<std::string> evaluation_stopped(std::size_t device, bool stopped);

  /// Returns, with several processes, the reason of a stop that any was asked for before training came to its end, when
  /// all devices call it; empty: none. Nothing in one process.
  virtual std::optional<std::string> late_stop(std::size_t /*device*/) { return std::nullopt; }

  /// This device leaves by an error: nobody waits for it. The first error counts; an echo of another device's
  /// (SyncError) gives way to a cause.
  void fail(std::size_t device, std::exception_ptr) noexcept;
  std::exception_ptr first_error() const;  ///< null: none failed
  /// Forgets requests, errors and data: for the next run, while no device asks.
  virtual void reset();

 protected:
  std::string requested_reason() const;  ///< reason of the stop that this process requested; empty: none
  void throw_if_failed() const;          ///< throws SyncError naming the device that failed, if one has

 private:
  struct DeviceState {
    Device device;            // device named in texts
    std::int64_t begun = -1;  // the last step
    std::int64_t calls = 0;   // calls of `any` so far
  };
  struct Answers {  // answers to one call of `any`
    std::size_t said = 0;
    std::size_t told = 0;
    bool any = false;
    bool warned = false;
  };

  void check_failed() const;
  bool any(std::unique_lock<std::mutex>&, std::size_t device, bool says, const char* situation);
  std::string missing(std::size_t device, std::int64_t call, const char* situation, std::chrono::milliseconds) const;

  mutable std::mutex mutex_;  // guards all below: devices ask at the same time
  std::condition_variable changed_;
  std::vector<DeviceState> devices_;
  std::map<std::int64_t, Answers> answers_;  // answers by the number of the call, until all have been told
  const std::chrono::milliseconds warn_after_;
  const std::chrono::milliseconds fail_after_;
  const std::function<void(const std::string&)> warn_;
  std::optional<std::int64_t> stop_at_;
  std::string stop_reason_;
  std::exception_ptr error_;
  std::size_t failed_ = 0;  // device whose error it is
};

}  // namespace tutti
