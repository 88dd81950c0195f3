// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/launch_order.h>
#include <tutti/distributed/processes/process_link.h>

#include <memory>
#include <string>
#include <vector>

namespace tutti {

/// A group's link that also carries the order of an engine's launches, on lines of their own, over another link. That
/// one tells all processes what is said on all its lines in one order, as ControlLink does.
class LaunchLink final : public ProcessLink {
 public:
  LaunchLink(std::unique_ptr<ProcessLink> other, std::shared_ptr<LaunchOrder> order);
  ~LaunchLink() override { close(); }

  int rank() const noexcept override { return other_->rank(); }
  const std::vector<Member>& members() const noexcept override { return other_->members(); }
  std::string place_of(int rank) const override { return other_->place_of(rank); }
  void open(Hearing) override;
  void say(Line line, Bytes bytes) override { other_->say(line, std::move(bytes)); }
  void be_silent(Line line) override { other_->be_silent(line); }
  std::vector<int> missing(Line line) const override { return other_->missing(line); }
  void poll() noexcept override { other_->poll(); }
  bool sleep_to_hear() noexcept override { return other_->sleep_to_hear(); }
  void end(const End& end) noexcept override { other_->end(end); }
  void close() noexcept override;

 private:
  class Lines;

  std::shared_ptr<ProcessLink> other_;
  std::shared_ptr<LaunchOrder> order_;
};

}  // namespace tutti
