// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tutti {

/// Message from the driver of a distributed training to the followers: one before each epoch, never a tensor.
struct DriverMessage {
  enum class Kind : std::uint8_t { train, validate, stop };
  Kind kind = Kind::stop;
  std::vector<double> learning_rates = {};  ///< rate of each of the optimizer's groups, with train
  bool takes_model = false;  ///< says, with stop, that the driver's best model follows on the tensor channel
  std::string error = {};    ///< reason why the driver failed, with stop; empty: it did not
};

/// The driver's end of the control channel, apart from the tensors': a very low traffic. Another transport derives from
/// this and ControlFollower. Used by one thread.
class ControlRoot {
 public:
  ControlRoot() = default;
  ControlRoot(const ControlRoot&) = delete;
  ControlRoot& operator=(const ControlRoot&) = delete;
  virtual ~ControlRoot() = default;

  /// Returns when all followers are there. Throws Error naming those that are missing after the channel's deadline, or
  /// one that failed.
  virtual void await_followers() = 0;
  virtual void send(const DriverMessage&) = 0;  ///< sends to all followers, in order; does not wait for them
};

/// A follower's end. Used by one thread.
class ControlFollower {
 public:
  ControlFollower() = default;
  ControlFollower(const ControlFollower&) = delete;
  ControlFollower& operator=(const ControlFollower&) = delete;
  virtual ~ControlFollower() = default;

  virtual void join() = 0;                          ///< tells the driver that this rank is there
  virtual void fail(const std::string& error) = 0;  ///< tells it that this rank will not come, or has gone
  /// The next message. Throws Error when the driver is gone, or silent for longer than the channel's deadline.
  virtual DriverMessage receive() = 0;
};

/// The channel between threads of one process. Its ends refer to it and are used while it lives.
class LocalControl {
 public:
  /// `deadline`: of every wait; it has to be longer than an epoch of the driver's. milliseconds::max(): none.
  explicit LocalControl(std::size_t followers, std::chrono::milliseconds deadline = std::chrono::hours(24));
  ~LocalControl();

  ControlRoot& root() noexcept;
  ControlFollower& follower(std::size_t index);  ///< 0 ... followers - 1
  void close();                                  ///< the driver is gone: waits end, by an error

 private:
  class Root;
  class Follower;

  std::mutex mutex_;  // guards all below: the ends are used by threads of their own
  std::condition_variable changed_;
  std::vector<std::deque<DriverMessage>> messages_;  // messages for each follower, by its index
  std::vector<char> joined_;
  std::string failure_;  // error of the first follower that failed
  bool closed_ = false;
  std::chrono::milliseconds deadline_;
  std::unique_ptr<Root> root_;
  std::vector<std::unique_ptr<Follower>> followers_;
};

}  // namespace tutti
