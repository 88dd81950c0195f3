// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/lines/socket_line.h>

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti {

namespace {

constexpr std::size_t kMostParts = 64;  // of one call of the kernel

std::span<const std::byte> bytes_of_head(const FrameHead& head) { return std::as_bytes(std::span(&head, 1)); }

/// What one call of the kernel is to send.
class Parts {
 public:
  bool is_full() const { return count_ == kMostParts; }
  std::size_t bytes() const { return bytes_; }
  // `skip`: bytes of the whole that were sent before, of which this part takes its own.
  void add(std::span<const std::byte> part, std::size_t& skip) {
    const std::size_t gone = std::min(skip, part.size());
    skip -= gone;
    part = part.subspan(gone);
    if (part.empty() || is_full()) return;
    parts_[count_++] = {const_cast<std::byte*>(part.data()), part.size()};
    bytes_ += part.size();
  }
  ssize_t send(int socket) {
    msghdr message{};
    message.msg_iov = parts_.data();
    message.msg_iovlen = count_;
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

 private:
  std::array<iovec, kMostParts> parts_{};
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace

SocketLine::SocketLine(OwnedDescriptor socket, FrameCipher::Kind kind, const FrameCipher::Key& sends,
                       const FrameCipher::Key& receives)
    : socket_(std::move(socket)), out_(kind, sends), in_(kind, receives) {}

void SocketLine::put(OutgoingFrame frame) {
  const std::lock_guard lock(mutex_);
  if (cut_) return;
  if (!frame.own.empty()) frame.parts = {std::span<const std::byte>(frame.own)};
  queue_.push_back(std::move(frame));
}

bool SocketLine::has_more() const {
  const std::lock_guard lock(mutex_);
  return !queue_.empty();
}

// Encrypted frames go one by one, in their sealed form; plain ones together, from where they lie.
FrameLine::Flow SocketLine::send(std::size_t most, bool& counted) {
  const std::lock_guard lock(mutex_);
  for (std::size_t all = 0; !queue_.empty();) {
    if (all >= most) return Flow::waiting;
    Parts parts;
    std::size_t skip = sent_;
    if (out_.encrypts()) {
      const FrameHead& head = queue_.front().head;
      if (!sealed_) {
        sealed_ = true;
        sealed_out_.resize(sizeof head + head.bytes + FrameCipher::kTag);
        std::memcpy(sealed_out_.data(), &head, sizeof head);
        std::byte* at = sealed_out_.data() + sizeof head;
        for (const auto part : queue_.front().parts) at = std::copy(part.begin(), part.end(), at);
        out_.seal(bytes_of_head(head), sealed_out_.data() + sizeof head, head.bytes);
      }
      parts.add(sealed_out_, skip);
    } else {
      for (const OutgoingFrame& frame : queue_) {
        parts.add(bytes_of_head(frame.head), skip);
        for (const auto part : frame.parts) parts.add(part, skip);
        if (parts.is_full() || all + parts.bytes() >= most) break;
      }
    }
    const ssize_t count = parts.send(socket_.get());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Flow::waiting : Flow::broken;
    all += static_cast<std::size_t>(count);
    sent_ += static_cast<std::size_t>(count);
    const std::size_t added = sizeof(FrameHead) + (out_.encrypts() ? FrameCipher::kTag : 0);
    while (!queue_.empty() && sent_ >= queue_.front().head.bytes + added) {
      sent_ -= queue_.front().head.bytes + added;
      if (queue_.front().gone != nullptr) {
        queue_.front().gone->fetch_add(1, std::memory_order_seq_cst);
        counted = true;
      }
      queue_.pop_front();
      sealed_ = false;
    }
  }
  return Flow::idle;
}

// Who sends counts within the lock.
bool SocketLine::all_counted() {
  const std::lock_guard lock(mutex_);
  return true;
}

void SocketLine::cut(OutgoingFrame last) {
  const std::lock_guard lock(mutex_);
  cut_ = true;
  if (queue_.size() > 1) queue_.erase(queue_.begin() + 1, queue_.end());
  if (sent_ == 0 && !sealed_) queue_.clear();
  if (!queue_.empty()) {  // its rest, from memory of its own
    OutgoingFrame& begun = queue_.front();
    begun.gone = nullptr;
    if (!out_.encrypts() && begun.own.empty()) {
      for (const auto part : begun.parts) begun.own.insert(begun.own.end(), part.begin(), part.end());
      begun.parts = {std::span<const std::byte>(begun.own)};
    }
    begun.keep.reset();
  }
  queue_.push_back(std::move(last));
  queue_.back().parts = {std::span<const std::byte>(queue_.back().own)};
}

void SocketLine::cut_all() noexcept {
  const std::lock_guard lock(mutex_);
  cut_ = true;
  queue_.clear();
}

std::size_t SocketLine::unsent() {
  pollfd socket{socket_.get(), 0, 0};
  if (poll(&socket, 1, 0) > 0 && (socket.revents & POLLERR) != 0) return 0;  // nobody takes it any more
  int bytes = 0;
  return ioctl(socket_.get(), SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

void SocketLine::shut() noexcept { ::shutdown(socket_.get(), SHUT_WR); }

FrameLine::Read SocketLine::read() {
  for (;;) {
    if (!has_head_) {
      if (received_ == sizeof head_) {
        std::memcpy(&head_, head_bytes_.data(), sizeof head_);
        has_head_ = true;
        received_ = 0;
        return Read::head;
      }
    } else if (!placed_) {
      return Read::head;
    } else if (received_ >= head_.bytes + tag()) {
      if (in_.encrypts() && !in_.open(head_bytes_, sealed_in_.data(), head_.bytes, target_.data())) return Read::forged;
      return Read::frame;
    }
    std::byte* const content = in_.encrypts() ? sealed_in_.data() : target_.data();
    const std::span<std::byte> place = has_head_ ? std::span(content, head_.bytes + tag()).subspan(received_)
                                                 : std::span(head_bytes_).subspan(received_);
    const ssize_t count = recv(socket_.get(), place.data(), place.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Read::nothing_yet;
    if (count <= 0) return Read::end;
    received_ += static_cast<std::size_t>(count);
  }
}

void SocketLine::place(std::span<std::byte> target) {
  target_ = target;
  placed_ = true;
  if (in_.encrypts()) sealed_in_.resize(head_.bytes + FrameCipher::kTag);
}

void SocketLine::next() {
  has_head_ = false;
  placed_ = false;
  received_ = 0;
  target_ = {};
}

}  // namespace tutti
