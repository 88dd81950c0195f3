// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control/mailbox.h>

#include <tutti/backend/raise.h>

#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>

namespace tutti::control {

namespace {

std::size_t size_of(const ControlEvent& event) {
  const auto* message = std::get_if<ControlMessage>(&event);
  return message == nullptr ? 0 : message->bytes.size();
}

}  // namespace

Mailbox::Mailbox() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) raise<Error>("[control channel] no event descriptor: {}", std::strerror(errno));
}

void Mailbox::wake() {
  const std::uint64_t one = 1;
  // Full is awake.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void Mailbox::post(Outgoing message) {
  {
    const std::lock_guard lock(lock_);
    if (outgoing_.size() >= kMostWaiting)
      raise<Error>("[control channel] {} messages wait to be sent: more come than the channel's thread can take",
                   kMostWaiting);
    outgoing_.push_back(std::move(message));
  }
  wake();
}

std::optional<ControlEvent> Mailbox::receive(Time deadline) {
  std::unique_lock lock(lock_);
  changed_.wait_until(lock, deadline, [&] { return !events_.empty() || failure_; });
  if (!events_.empty()) {
    bytes_ -= size_of(events_.front());
    std::optional<ControlEvent> event(std::move(events_.front()));
    events_.pop_front();
    return event;
  }
  if (failure_) raise<Error>("{}", *failure_);
  return std::nullopt;
}

std::vector<ControlMember> Mailbox::wait_until_open() {
  std::unique_lock lock(lock_);
  changed_.wait(lock, [&] { return members_ || failure_; });
  if (failure_) raise<Error>("{}", *failure_);
  return *members_;
}

std::vector<PeerClock> Mailbox::clocks() const {
  const std::lock_guard lock(lock_);
  return clocks_;
}

Mailbox::Counts Mailbox::counts() const {
  const std::lock_guard lock(lock_);
  return counts_;
}

void Mailbox::stop() {
  {
    const std::lock_guard lock(lock_);
    stopping_ = true;
  }
  wake();
}

std::optional<std::deque<Mailbox::Outgoing>> Mailbox::take() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(wake_.get(), &count, sizeof count);
  const std::lock_guard lock(lock_);
  // What was posted before the end is still sent.
  if (stopping_ && outgoing_.empty()) return std::nullopt;
  if (stopping_) wake();  // for the next turn, which ends
  return std::exchange(outgoing_, {});
}

bool Mailbox::deliver(ControlEvent event) {
  {
    const std::lock_guard lock(lock_);
    const std::size_t size = size_of(event);
    // Losses and deaths are few, and always have room.
    if (std::holds_alternative<ControlMessage>(event) && (events_.size() >= kMostWaiting || bytes_ + size > kMostBytes))
      return false;
    bytes_ += size;
    events_.push_back(std::move(event));
  }
  changed_.notify_all();
  return true;
}

void Mailbox::open(std::vector<ControlMember> members) {
  {
    const std::lock_guard lock(lock_);
    members_ = std::move(members);
  }
  changed_.notify_all();
}

void Mailbox::fail(std::string why) noexcept {
  {
    const std::lock_guard lock(lock_);
    if (!failure_) failure_ = std::move(why);
  }
  changed_.notify_all();
}

void Mailbox::publish(std::vector<PeerClock> clocks, Counts counts) {
  const std::lock_guard lock(lock_);
  clocks_ = std::move(clocks);
  counts_ = counts;
}

}  // namespace tutti::control
