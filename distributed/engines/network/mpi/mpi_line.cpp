// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/mpi/mpi_line.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace tutti {

namespace {

constexpr int kFirstTag = 1;  // 0 is that of the meeting

}  // namespace

std::size_t MpiLine::FirstMessage::bytes() const {
  const std::size_t begin = sizeof head + sizeof parts + sizeof unused;
  return begin + (parts > 0 ? parts * sizeof(std::uint32_t) : head.bytes);
}

MpiLine::MpiLine(std::shared_ptr<MpiChannel> channel, int rank, Lane lane)
    : channel_(std::move(channel)),
      rank_(rank),
      first_tag_(kFirstTag + 2 * static_cast<int>(lane)),
      first_(std::make_shared<FirstMessage>()) {
  await_first();
}

// Memory that MPI may still use stays.
MpiLine::~MpiLine() {
  MpiRuntime& runtime = channel_->runtime();
  if (!channel_->cancel(first_request_)) runtime.keep(first_);
  for (const auto& each : in_flight_) {
    for (MpiRequest& request : each->requests) channel_->test(request);
    if (std::ranges::any_of(each->requests, &MpiRequest::active)) runtime.keep(each);
  }
  for (MpiRequest& request : part_requests_) channel_->test(request);
  if (std::ranges::any_of(part_requests_, &MpiRequest::active)) runtime.keep(dropped_);
}

void MpiLine::put(OutgoingFrame frame) {
  const std::lock_guard lock(mutex_);
  if (cut_) return;
  if (!frame.own.empty()) frame.parts = {std::span<const std::byte>(frame.own)};
  queue_.push_back(std::move(frame));
}

bool MpiLine::has_more() const {
  const std::lock_guard lock(mutex_);
  return !queue_.empty() || !in_flight_.empty();
}

FrameLine::Flow MpiLine::send(std::size_t, bool& counted) {
  const std::lock_guard lock(mutex_);
  counted |= pump();
  if (broken_) return Flow::broken;
  return queue_.empty() && in_flight_.empty() ? Flow::idle : Flow::waiting;
}

bool MpiLine::pump() {
  const bool counted = count_gone();
  for (; !broken_ && !queue_.empty() && in_flight_.size() < kMostInFlight; queue_.pop_front()) begin(queue_.front());
  return counted;
}

void MpiLine::begin(OutgoingFrame& frame) {
  if (spare_.empty()) spare_.push_back(std::make_shared<InFlight>());
  InFlight& flight = *spare_.back();
  in_flight_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  flight.gone = frame.gone;
  flight.keep = std::move(frame.keep);
  FirstMessage& first = flight.first;
  first.head = frame.head;
  first.parts = 0;
  std::erase_if(frame.parts, [](const auto& part) { return part.empty(); });
  const bool is_short = frame.head.bytes <= kWithHead;
  flight.is_foreign = !is_short && frame.own.empty() && frame.parts.size() <= kMostParts;
  if (is_short) {
    std::byte* at = first.content.data();
    for (const auto part : frame.parts) at = std::copy(part.begin(), part.end(), at);
  } else if (!flight.is_foreign) {
    flight.own.clear();
    for (const auto part : frame.parts) flight.own.insert(flight.own.end(), part.begin(), part.end());
    frame.parts = {std::span<const std::byte>(flight.own)};
  }
  if (!is_short)
    for (const auto part : frame.parts) first.sizes[first.parts++] = static_cast<std::uint32_t>(part.size());
  bool good =
      channel_->send(rank_, first_tag_, std::as_bytes(std::span(&first, 1)).first(first.bytes()), flight.requests[0]);
  for (std::size_t i = 0; good && i < first.parts; ++i)
    good = channel_->send(rank_, first_tag_ + 1, frame.parts[i], flight.requests[1 + i]);
  broken_ |= !good;
}

// Those that have gone are counted in their order. True: there were any.
bool MpiLine::count_gone() {
  bool counted = false;
  while (!in_flight_.empty()) {
    InFlight& flight = *in_flight_.front();
    for (std::size_t i = 0; i <= flight.first.parts; ++i) {
      broken_ |= !channel_->test(flight.requests[i]);
      if (flight.requests[i].active) return counted;
    }
    if (broken_) return counted;
    if (flight.gone != nullptr) {
      flight.gone->fetch_add(1, std::memory_order_seq_cst);
      counted = true;
    }
    flight.keep.reset();
    spare_.push_back(std::move(in_flight_.front()));
    in_flight_.pop_front();
  }
  return counted;
}

bool MpiLine::all_counted() {
  const std::lock_guard lock(mutex_);
  count_gone();
  return in_flight_.empty();
}

bool MpiLine::can_send() {
  const std::lock_guard lock(mutex_);
  if (broken_ || (!queue_.empty() && in_flight_.size() < kMostInFlight)) return true;
  if (in_flight_.empty()) return false;
  InFlight& flight = *in_flight_.front();
  for (std::size_t i = 0; i <= flight.first.parts; ++i) {
    broken_ |= !channel_->test(flight.requests[i]);
    if (flight.requests[i].active) return false;
  }
  return true;
}

// --- the end

void MpiLine::cut(OutgoingFrame last) {
  cut_all();
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(last));
  queue_.back().parts = {std::span<const std::byte>(queue_.back().own)};
}

void MpiLine::cut_all() noexcept {
  const std::lock_guard lock(mutex_);
  cut_ = true;
  queue_.clear();
  for (const auto& flight : in_flight_) {
    flight->gone = nullptr;
    flight->keep.reset();
  }
  channel_->runtime().set_failed();
}

bool MpiLine::has_let_go() noexcept try {
  {
    const std::lock_guard lock(mutex_);
    pump();
    for (const auto& each : in_flight_)  // behind an error, too
      for (MpiRequest& request : each->requests) channel_->test(request);
  }
  take_rest();  // the other side waits for the same
  for (MpiRequest& request : part_requests_) channel_->test(request);
  const std::lock_guard lock(mutex_);
  const auto uses_foreign = [](const auto& flight) {
    return flight->is_foreign && std::ranges::any_of(flight->requests, &MpiRequest::active);
  };
  return (left_ || std::ranges::none_of(in_flight_, uses_foreign)) &&
         std::ranges::none_of(part_requests_, &MpiRequest::active);
} catch (...) {
  return false;
}

// The other side of a line that was cut has to be rid of what it has on its way.
std::size_t MpiLine::unsent() {
  if (cut_) take_rest();
  const std::lock_guard lock(mutex_);
  if (broken_ || left_) return 0;
  return in_flight_.size() + queue_.size() + (cut_ && !ended_ ? 1 : 0);
}

// A head of no kind is the last. Who was cut says so, and goes on receiving.
void MpiLine::shut() noexcept try {
  const std::lock_guard lock(mutex_);
  OutgoingFrame last{};
  last.head.number = cut_ ? 1 : 0;
  queue_.push_back(std::move(last));
  pump();
} catch (...) {
  // no memory: the other side waits for its deadline
}

// --- in

void MpiLine::await_first() {
  has_head_ = placed_ = false;
  if (!channel_->receive(rank_, first_tag_, std::as_writable_bytes(std::span(first_.get(), 1)), first_request_))
    ended_ = true;
}

void MpiLine::add_awaited(std::vector<MpiRequest*>& all) {
  if (first_request_.active) all.push_back(&first_request_);
  for (MpiRequest& each : part_requests_)
    if (each.active) all.push_back(&each);
}

bool MpiLine::can_read() const {
  return !first_request_.active && std::ranges::none_of(part_requests_, &MpiRequest::active);
}

FrameLine::Read MpiLine::read() {
  if (ended_) return Read::end;
  if (!has_head_) {
    if (!channel_->test(first_request_)) return Read::end;
    if (first_request_.active) return Read::nothing_yet;
    head_ = first_->head;
    const FirstMessage& first = *first_;
    const bool is_good = first.parts == 0 ? head_.bytes <= kWithHead
                                          : first.parts <= kMostParts &&
                                                std::accumulate(first.sizes.begin(), first.sizes.begin() + first.parts,
                                                                std::uint64_t{0}) == head_.bytes;
    if (!is_good) return Read::forged;
    has_head_ = true;
    ended_ = head_.kind == FrameHead::Kind{};
    left_ = ended_ && head_.number == 0;
    return ended_ ? Read::end : Read::head;
  }
  if (!placed_) return Read::head;
  for (std::size_t i = 0; i < first_->parts; ++i) {
    if (!channel_->test(part_requests_[i])) return Read::end;
    if (part_requests_[i].active) return Read::nothing_yet;
  }
  return Read::frame;
}

void MpiLine::place(std::span<std::byte> target) {
  placed_ = true;
  if (first_->parts == 0) std::copy_n(first_->content.begin(), target.size(), target.begin());
  for (std::size_t i = 0; i < first_->parts; ++i) {
    const std::size_t bytes = first_->sizes[i];
    if (!channel_->receive(rank_, first_tag_ + 1, target.first(bytes), part_requests_[i])) ended_ = true;
    target = target.subspan(bytes);
  }
}

void MpiLine::next() { await_first(); }

void MpiLine::take_rest() noexcept try {
  while (!ended_) switch (read()) {
      case Read::nothing_yet: return;
      case Read::head:
        dropped_->resize(head_.bytes);
        place(*dropped_);
        break;
      case Read::frame: next(); break;
      case Read::end:
      case Read::forged: ended_ = true; break;
    }
} catch (...) {
  // no memory: tried again
}

}  // namespace tutti
