// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/lines/frame.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

/// A frame on its way out. What it points at stays where it is until the frame has gone, or the line was cut and has
/// let go.
struct OutgoingFrame {
  FrameHead head;
  std::vector<std::span<const std::byte>> parts{};  ///< the content, piece by piece
  std::vector<std::byte> own{};                     ///< the content, if the frame itself has it
  std::atomic<std::uint32_t>* gone = nullptr;       ///< counted up once the carrier has it all
  std::shared_ptr<const void> keep{};               ///< owner of `gone`
};

/// A line to another process that carries frames both ways, in order. Never blocks. Any thread sends; one at a time
/// receives.
class FrameLine {
 public:
  FrameLine() = default;
  virtual ~FrameLine() = default;
  FrameLine(const FrameLine&) = delete;
  FrameLine& operator=(const FrameLine&) = delete;

  // --- out
  enum class Flow : std::uint8_t {
    idle,     ///< nothing is left to send
    waiting,  ///< some is left, for which the carrier has no room, or which was too much for now
    broken,
  };
  virtual void put(OutgoingFrame) = 0;
  /// Sends what is queued, up to about that many bytes. `counted`: set if some frame has gone whole.
  virtual Flow send(std::size_t most, bool& counted) = 0;
  virtual bool has_more() const = 0;
  /// True if every frame that the other side may have by now has been counted as gone.
  virtual bool all_counted() = 0;
  /// Ends what is queued: nothing can be put any more. What the other side has a part of, or is encrypted, goes out
  /// whole, and then `last`.
  virtual void cut(OutgoingFrame last) = 0;
  virtual void cut_all() noexcept = 0;  ///< the same, and nothing goes out any more
  /// True if no memory to which frames point, or at which they were placed, is used any more, after a cut. Until then
  /// it is called again and again, and takes what still comes.
  virtual bool has_let_go() noexcept = 0;
  virtual std::size_t unsent() = 0;  ///< bytes that the other side does not have yet, as far as that is known
  virtual void shut() noexcept = 0;  ///< says that nothing will follow

  // --- in, by one thread at a time
  enum class Read : std::uint8_t { nothing_yet, head, frame, end, forged };
  /// Reads on: `head` when a frame's head is there, whose content is to be given a place then; `frame` when its content
  /// is there, too.
  virtual Read read() = 0;
  const FrameHead& head() const noexcept { return head_; }
  virtual void place(std::span<std::byte> target) = 0;  ///< exactly head().bytes; for a head that was read
  virtual void next() = 0;                              ///< goes on after a frame

 protected:
  FrameHead head_;
};

}  // namespace tutti
