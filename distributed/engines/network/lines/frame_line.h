// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/owned_descriptor.h>
#include <tutti/distributed/engines/network/lines/frame.h>
#include <tutti/distributed/engines/network/lines/frame_cipher.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace tutti {

/// A frame on its way out. What it points at stays where it is until the frame has gone, or the line was cut.
struct OutgoingFrame {
  FrameHead head;
  std::vector<std::span<const std::byte>> parts{};  ///< the content, piece by piece
  std::vector<std::byte> own{};                     ///< the content, if the frame itself has it
  std::atomic<std::uint32_t>* gone = nullptr;       ///< counted up once the kernel has it all
  std::shared_ptr<const void> keep{};               ///< owner of `gone`
};

/// A connection to another process that carries frames both ways, without copies where it is not encrypted. Never
/// blocks. Any thread sends; one at a time receives.
class FrameLine {
 public:
  /// `sends`, `receives`: the directions' keys.
  FrameLine(OwnedDescriptor, FrameCipher::Kind, const FrameCipher::Key& sends, const FrameCipher::Key& receives);

  int descriptor() const noexcept { return socket_.get(); }

  // --- out
  enum class Flow : std::uint8_t {
    idle,     ///< nothing is left to send
    waiting,  ///< some is left, for which the kernel has no room, or which was too much for now
    broken,
  };
  void put(OutgoingFrame);
  /// Sends what is queued, up to about that many bytes. `counted`: set if some frame has gone whole.
  Flow send(std::size_t most, bool& counted);
  bool has_more() const;
  /// Ends what is queued: nothing is read any more from where frames point, and nothing can be put. What the other side
  /// has a part of, or is encrypted, goes out whole, and then `last`.
  void cut(OutgoingFrame last);
  void cut_all() noexcept;     ///< the same, and nothing goes out any more
  std::size_t unsent() const;  ///< bytes that the other side's kernel does not have yet
  void shut() noexcept;        ///< says that nothing will follow

  // --- in, by one thread at a time
  enum class Read : std::uint8_t { nothing_yet, head, frame, end, forged };
  /// Reads on: `head` when a frame's head is there, whose content is to be given a place then; `frame` when its content
  /// is there, too.
  Read read();
  const FrameHead& head() const noexcept { return head_; }
  bool placed() const noexcept { return placed_; }
  void place(std::span<std::byte> target);  ///< exactly head().bytes; for a head that was read
  void next();                              ///< goes on after a frame

 private:
  std::size_t tag() const noexcept { return in_.encrypts() ? FrameCipher::kTag : 0; }

  OwnedDescriptor socket_;

  mutable std::mutex mutex_;  // guards what follows: any thread sends
  FrameCipher out_;
  std::deque<OutgoingFrame> queue_;
  std::vector<std::byte> sealed_out_;  // the first of the queue, encrypted
  bool sealed_ = false;                // the first of the queue is: its nonce is used, and it has to go
  std::size_t sent_ = 0;               // bytes of the first of the queue, with its head, that the kernel has
  bool cut_ = false;

  FrameCipher in_;  // this and what follows belong to the thread that receives
  FrameHead head_;
  std::array<std::byte, sizeof(FrameHead)> head_bytes_{};
  std::size_t received_ = 0;  // bytes of the head, and then of the content
  bool has_head_ = false;
  bool placed_ = false;
  std::span<std::byte> target_;
  std::vector<std::byte> sealed_in_;
};

}  // namespace tutti
