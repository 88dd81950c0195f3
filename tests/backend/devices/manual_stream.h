// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/raise.h>
#include <tutti/backend/stream.h>

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

namespace tutti {

/// A stream whose work runs when the test calls `run_next`, so that a test picks every interleaving of several streams.
/// The contract is that of Stream: errors make it skip work until `synchronize`, and travel with events.
/// Single-threaded.
class ManualStream final : public Stream {
 public:
  explicit ManualStream(Device device = cpu()) : device_(device) {}

  void launch(std::function<void()> work) { queue_.push_back({std::move(work), {}, nullptr}); }
  std::size_t pending() const { return queue_.size(); }

  /// True if the next piece of work could run now: there is one, and it waits for nothing.
  bool can_run() const {
    return !queue_.empty() && (!queue_.front().awaited.recorded() || queue_.front().awaited.ready());
  }

  /// Runs one piece of work, fulfils one record or passes one wait; false if it cannot.
  bool run_next() {
    if (!can_run()) return false;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    if (item.recorded != nullptr) {
      item.recorded->done = true;
      item.recorded->error = error_;
    } else if (error_ == nullptr) {
      try {
        if (item.awaited.recorded()) item.awaited.synchronize();
        if (item.work) item.work();
      } catch (...) {
        error_ = std::current_exception();
      }
    }
    return true;
  }

  Device device() const noexcept override { return device_; }
  Event record() override {
    auto state = std::make_shared<State>();
    queue_.push_back({nullptr, {}, state});
    return Event(std::move(state));
  }
  void wait(const Event& event) override {
    if (!event.recorded()) raise("[stream] told to wait for an event that was never recorded");
    queue_.push_back({nullptr, event, nullptr});
  }
  void synchronize() override {
    while (!queue_.empty())
      if (!run_next()) raise("[stream] synchronize would block for ever: run the other stream first");
    if (const auto error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
  }

 private:
  struct State final : EventState {
    bool ready() const override { return done; }
    void synchronize() override {
      if (!done) raise("[event] synchronize would block for ever: run its stream first");
      if (error != nullptr) std::rethrow_exception(error);
    }
    bool done = false;
    std::exception_ptr error;
  };
  struct Item {
    std::function<void()> work;
    Event awaited;
    std::shared_ptr<State> recorded;
  };

  Device device_;
  std::deque<Item> queue_;
  std::exception_ptr error_;
};

}  // namespace tutti
