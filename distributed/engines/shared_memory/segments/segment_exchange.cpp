// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/shared_memory/segments/segment_exchange.h>

#include <tutti/backend/process/deadline.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/engines/shared_memory/segments/segment_socket.h>

#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostWaiting = 64;          // connections that have said nothing yet
constexpr std::size_t kMostBytes = 1ULL << 44U;   // of a segment
constexpr std::chrono::milliseconds kNextTry{5};  // until a rank that does not listen yet is tried again

/// One process's side of a meeting: it connects to the ranks below it and is called by those above.
class Exchange {
 public:
  Exchange(const SegmentMeeting& meeting, const std::shared_ptr<SharedSegment>& own)
      : meeting_(meeting),
        hello_{.epoch = meeting.epoch,
               .rank = meeting.rank,
               .ranks = static_cast<std::int32_t>(meeting.ranks.size()),
               .bytes = own->bytes()},
        own_descriptor_(own->descriptor()),
        listener_(listen_at(segment_address(meeting, meeting.rank))),
        called_(meeting.ranks.size()),
        segments_(meeting.ranks.size()) {
    segments_[place_of(meeting.rank)] = own;
  }

  std::vector<std::shared_ptr<SharedSegment>> run(std::chrono::milliseconds patience,
                                                  const std::function<void()>& look_around) {
    auto deadline = Clock::now() + patience;
    StandstillWatch standstill(patience, patience);
    while (std::ranges::count(segments_, nullptr) > 0) {
      const auto now = Clock::now();
      deadline += standstill.look(now);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
      if (look_around) look_around();
      if (left.count() <= 0) raise_missing(patience);
      call_lower_ranks();
      wait_for_news(std::min(left, kNextTry));
      for (std::size_t place = 0; place < called_.size(); ++place) hear_called(place);
      hear_callers();
    }
    return std::move(segments_);
  }

 private:
  std::size_t place_of(int rank) const {
    return static_cast<std::size_t>(std::ranges::find(meeting_.ranks, rank) - meeting_.ranks.begin());
  }

  void call_lower_ranks() {
    for (std::size_t place = 0; meeting_.ranks[place] < meeting_.rank; ++place) {
      if (segments_[place] || called_[place]) continue;
      OwnedDescriptor connection = connect_to(segment_address(meeting_, meeting_.ranks[place]));
      if (connection && send_segment(connection.get(), hello_, own_descriptor_)) called_[place] = std::move(connection);
    }
  }

  void wait_for_news(std::chrono::milliseconds most) {
    std::vector<pollfd> sockets{{listener_.get(), POLLIN, 0}};
    for (const auto* connections : {&called_, &callers_})
      for (const OwnedDescriptor& connection : *connections)
        if (connection) sockets.push_back({connection.get(), POLLIN, 0});
    poll(sockets.data(), sockets.size(), static_cast<int>(most.count()));
  }

  // Who ends the connection unheard is called again.
  void hear_called(std::size_t place) {
    if (!called_[place]) return;
    ReceivedSegment received;
    const Reception reception = receive_segment(called_[place].get(), received);
    if (reception == Reception::nothing_yet) return;
    if (reception == Reception::received && received.hello.rank == meeting_.ranks[place]) take(std::move(received));
    called_[place] = {};
  }

  // Strangers that say nothing make room for those who come later.
  void hear_callers() {
    while (OwnedDescriptor caller = accept_from(listener_.get())) {
      if (callers_.size() == kMostWaiting) callers_.erase(callers_.begin());
      callers_.push_back(std::move(caller));
      std::erase_if(callers_, [this](const OwnedDescriptor& each) { return heard(each.get()); });
    }
    std::erase_if(callers_, [this](const OwnedDescriptor& each) { return heard(each.get()); });
  }

  bool heard(int caller) {
    ReceivedSegment received;
    const Reception reception = receive_segment(caller, received);
    if (reception == Reception::nothing_yet) return false;
    // Answered before it counts: who is counted may not call again.
    if (reception == Reception::received && received.hello.rank > meeting_.rank && take(std::move(received)))
      send_segment(caller, hello_, own_descriptor_);
    return true;
  }

  // False: it is not let in.
  bool take(ReceivedSegment received) {
    const SegmentHello& hello = received.hello;
    const std::size_t place = place_of(hello.rank);
    if (place == segments_.size() || segments_[place]) return false;
    if (hello.epoch != meeting_.epoch) return refuse(hello, fmt::format("is of epoch {}", hello.epoch));
    if (hello.ranks != hello_.ranks) return refuse(hello, fmt::format("knows of {} ranks", hello.ranks));
    if (hello.bytes > kMostBytes) return refuse(hello, fmt::format("has {} bytes", hello.bytes));
    try {
      segments_[place] =
          SharedSegment::map(std::move(received.descriptor), hello.bytes, fmt::format("rank {}", hello.rank));
    } catch (const OutOfMemoryError&) {  // this process cannot map it, whoever offers it
      throw;
    } catch (const Error& error) {
      return refuse(hello, error.what());
    }
    return true;
  }

  bool refuse(const SegmentHello& hello, const std::string& reason) {
    refused_ = fmt::format("; who came as rank {} was not let in, as it {}", hello.rank, reason);
    return false;
  }

  [[noreturn]] void raise_missing(std::chrono::milliseconds patience) const {
    std::vector<int> missing;
    for (std::size_t place = 0; place < segments_.size(); ++place)
      if (!segments_[place]) missing.push_back(meeting_.ranks[place]);
    raise<SyncError>("[shared_memory] rank {} waited {} ms in epoch {} for the memory of rank {}{}", meeting_.rank,
                     patience.count(), meeting_.epoch, fmt::join(missing, ", "), refused_);
  }

  const SegmentMeeting& meeting_;
  SegmentHello hello_;
  int own_descriptor_;
  OwnedDescriptor listener_;
  std::vector<OwnedDescriptor> called_;                   // by place, while an answer is awaited
  std::vector<OwnedDescriptor> callers_;                  // those that have said nothing yet, oldest first
  std::vector<std::shared_ptr<SharedSegment>> segments_;  // by place
  std::string refused_;                                   // the last one, for the error
};

}  // namespace

std::string segment_address(const SegmentMeeting& meeting, int rank) {
  return fmt::format("tutti.{}.{}.{}", meeting.name, meeting.epoch, rank);
}

std::vector<std::shared_ptr<SharedSegment>> exchange_segments(const SegmentMeeting& meeting,
                                                              const std::shared_ptr<SharedSegment>& own,
                                                              std::chrono::milliseconds patience,
                                                              const std::function<void()>& look_around) {
  const auto& ranks = meeting.ranks;
  if (!std::ranges::is_sorted(ranks) || std::ranges::adjacent_find(ranks) != ranks.end() ||
      std::ranges::find(ranks, meeting.rank) == ranks.end())
    raise<SyncError>("[shared_memory] ranks {} must ascend and have rank {} among them", fmt::join(ranks, ", "),
                     meeting.rank);
  return Exchange(meeting, own).run(patience, look_around);
}

}  // namespace tutti
