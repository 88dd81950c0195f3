// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <memory>

namespace tutti {

/// The state that a backend keeps of one recorded event.
class EventState {
 public:
  virtual ~EventState() = default;
  virtual bool ready() const = 0;  ///< true once everything before the record has finished, well or badly
  virtual void synchronize() = 0;  ///< blocks the calling thread until ready; rethrows the stream's error
  /// Blocks the calling thread until ready. An error that is told only once stays for who synchronises.
  virtual void wait() noexcept;
};

/// A point in a stream's work. A cheap handle; copies name the same point. Thread-safe.
class Event {
 public:
  Event() = default;  ///< never recorded: waiting on it is an error
  explicit Event(std::shared_ptr<EventState> state) : state_(std::move(state)) {}

  bool recorded() const noexcept { return state_ != nullptr; }
  bool ready() const;        ///< throws `Error` if never recorded
  void synchronize() const;  ///< blocks until ready and rethrows the stream's error; throws `Error` if never recorded
  void wait() const;         ///< blocks until ready, and leaves the stream's error to others; `Error` if never recorded
  const std::shared_ptr<EventState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<EventState> state_;
};

/// A device's queue of work, run in order. The same contract on every kind of device: `wait` orders the stream behind
/// the event and does not block the caller. Thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;

  virtual Device device() const noexcept = 0;
  virtual Event record() = 0;           ///< the point after everything queued so far
  virtual void wait(const Event&) = 0;  ///< later work starts after the event; throws `Error` if never recorded
  virtual void synchronize() = 0;       ///< blocks until all queued work is done; rethrows the first error, once
};

}  // namespace tutti
