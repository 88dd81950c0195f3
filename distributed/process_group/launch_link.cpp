// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/process_group/launch_link.h>

#include <utility>

namespace tutti {

namespace {

ProcessLink::Line line_of(Sequence sequence) {
  return sequence == Sequence::round ? ProcessLink::Line::round_launches : ProcessLink::Line::user_launches;
}

}  // namespace

LaunchLink::LaunchLink(std::unique_ptr<ProcessLink> other, std::shared_ptr<LaunchOrder> order)
    : other_(std::move(other)), order_(std::move(order)) {
  order_->set_link({.say = [this](Sequence sequence) { other_->say(line_of(sequence), {}); },
                    .missing = [this](Sequence sequence) { return other_->missing(line_of(sequence)); }});
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
  order_->set_link({});
  other_->close();
}

}  // namespace tutti
