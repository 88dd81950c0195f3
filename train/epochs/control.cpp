// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/epochs/control.h>

#include <tutti/backend/process/deadline.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <utility>

namespace tutti {

class LocalControl::Root final : public ControlRoot {
 public:
  explicit Root(LocalControl& channel) : channel_(channel) {}

  void await_followers() override {
    std::unique_lock lock(channel_.mutex_);
    const auto& joined = channel_.joined_;
    const auto decided = [&] { return !channel_.failure_.empty() || std::ranges::count(joined, 0) == 0; };
    const bool in_time = wait_within(channel_.changed_, lock, channel_.deadline_, decided);
    if (!channel_.failure_.empty()) raise<Error>("[control] {}", channel_.failure_);
    if (in_time) return;
    std::string missing;
    for (std::size_t i = 0; i < joined.size(); ++i)
      if (joined[i] == 0) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", i);
    raise<Error>("[control] after {} ms follower {} of {} has not joined", channel_.deadline_.count(), missing,
                 joined.size());
  }

  void send(const DriverMessage& message) override {
    {
      const std::lock_guard lock(channel_.mutex_);
      for (auto& queue : channel_.messages_) queue.push_back(message);
    }
    channel_.changed_.notify_all();
  }

 private:
  LocalControl& channel_;
};

class LocalControl::Follower final : public ControlFollower {
 public:
  Follower(LocalControl& channel, std::size_t index) : channel_(channel), index_(index) {}

  void join() override {
    {
      const std::lock_guard lock(channel_.mutex_);
      channel_.joined_[index_] = 1;
    }
    channel_.changed_.notify_all();
  }

  void fail(const std::string& error) override {
    {
      const std::lock_guard lock(channel_.mutex_);
      if (channel_.failure_.empty()) channel_.failure_ = fmt::format("follower {} failed: {}", index_, error);
    }
    channel_.changed_.notify_all();
  }

  DriverMessage receive() override {
    std::unique_lock lock(channel_.mutex_);
    auto& queue = channel_.messages_[index_];
    const bool heard =
        wait_within(channel_.changed_, lock, channel_.deadline_, [&] { return !queue.empty() || channel_.closed_; });
    if (queue.empty() && heard) raise<Error>("[control] follower {}: the driver is gone", index_);
    if (queue.empty())
      raise<Error>("[control] follower {}: no word from the driver for {} ms", index_, channel_.deadline_.count());
    DriverMessage message = std::move(queue.front());
    queue.pop_front();
    return message;
  }

 private:
  LocalControl& channel_;
  std::size_t index_;
};

LocalControl::LocalControl(std::size_t followers, std::chrono::milliseconds deadline)
    : messages_(followers),
      joined_(followers, 0),
      deadline_(bounded_wait("control, deadline", deadline)),
      root_(std::make_unique<Root>(*this)) {
  for (std::size_t i = 0; i < followers; ++i) followers_.push_back(std::make_unique<Follower>(*this, i));
}

LocalControl::~LocalControl() = default;

ControlRoot& LocalControl::root() noexcept { return *root_; }

ControlFollower& LocalControl::follower(std::size_t index) { return *followers_.at(index); }

void LocalControl::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

}  // namespace tutti
