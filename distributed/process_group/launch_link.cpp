// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/process_group/launch_link.h>

#include <utility>

namespace tutti {

namespace {

ProcessLink::Line line_of(Sequence sequence) {
  return sequence == Sequence::round ? ProcessLink::Line::round_launches : ProcessLink::Line::user_launches;
}

}  // namespace

class LaunchLink::Lines final : public LaunchOrder::Link {
 public:
  explicit Lines(std::shared_ptr<ProcessLink> link) : link_(std::move(link)) {}
  void say(Sequence sequence) override { link_->say(line_of(sequence), {}); }
  std::vector<int> missing(Sequence sequence) const override { return link_->missing(line_of(sequence)); }

 private:
  std::shared_ptr<ProcessLink> link_;
};

LaunchLink::LaunchLink(std::unique_ptr<ProcessLink> other, std::shared_ptr<LaunchOrder> order)
    : other_(std::move(other)), order_(std::move(order)) {
  order_->set_link(std::make_shared<Lines>(other_));
}

void LaunchLink::open(Hearing hearing) {
  auto said = std::move(hearing.said);
  hearing.said = [this, said = std::move(said)](Line line, std::vector<Bytes> by_rank) {
    for (const Sequence sequence : {Sequence::round, Sequence::users})
      if (line == line_of(sequence)) return order_->launch(sequence);
    said(line, std::move(by_rank));
  };
  other_->open(std::move(hearing));
}

void LaunchLink::close() noexcept {
  order_->set_link(nullptr);
  other_->close();
}

}  // namespace tutti
