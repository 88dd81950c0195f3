// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/train/epochs/control.h>

#include <functional>
#include <string>
#include <utility>

namespace tutti {

class GradientSync;

/// The driver's end of a control channel that is the group itself, for ranks in several processes: each message is a
/// collective of all devices. Waits end by the group's deadlines and failures, which tell the followers' errors, too.
class GroupControlRoot final : public ControlRoot {
 public:
  GroupControlRoot(GradientSync& group, Device driver) : group_(group), device_(driver) {}

  void await_followers() override {}  ///< the first message does
  /// Returns when all followers have it. What the driver failed by they hear from the group: that is not sent.
  void send(const DriverMessage&) override;
  /// Asks all devices, as a message of its own, to do what the followers were made with, and returns when all begin.
  void ask();

 private:
  GradientSync& group_;
  Device device_;
};

/// A follower's end of that channel.
class GroupControlFollower final : public ControlFollower {
 public:
  /// `asked`: what `ask` calls for.
  GroupControlFollower(GradientSync& group, Device own, std::function<void()> asked)
      : group_(group), device_(own), asked_(std::move(asked)) {}

  void join() override {}
  void fail(const std::string&) override {}  ///< the group tells
  DriverMessage receive() override;

 private:
  GradientSync& group_;
  Device device_;
  std::function<void()> asked_;
};

}  // namespace tutti
