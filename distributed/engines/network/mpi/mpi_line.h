// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/lines/frame_line.h>
#include <tutti/distributed/engines/network/lines/line_handshake.h>
#include <tutti/distributed/engines/network/mpi/mpi_channel.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace tutti {

/// A line whose frames are messages of MPI: one with the head, and a short content; then one for each part of a longer
/// content, from where it lies to where it belongs. What MPI has been given it cannot give back: a line that is cut
/// lets go when both sides have taken what was on its way.
class MpiLine final : public FrameLine {
 public:
  /// `rank`: MPI's, of the other process.
  MpiLine(std::shared_ptr<MpiChannel>, int rank, Lane);
  ~MpiLine() override;

  void put(OutgoingFrame) override;
  Flow send(std::size_t most, bool& counted) override;
  bool has_more() const override;
  bool all_counted() override;
  void cut(OutgoingFrame last) override;
  void cut_all() noexcept override;
  bool has_let_go() noexcept override;
  std::size_t unsent() override;
  void shut() noexcept override;

  Read read() override;
  void place(std::span<std::byte> target) override;
  void next() override;

  // --- for the watch
  bool can_send();        ///< looks whether some frame has gone, or may be begun
  bool can_read() const;  ///< true if `read` says anything but `nothing_yet`, as far as that is known
  /// Adds the requests for which the line waits to read on.
  void add_awaited(std::vector<MpiRequest*>&);

 private:
  static constexpr std::size_t kMostParts = 16;
  static constexpr std::size_t kWithHead = 2000;  // bytes of content, at most, that go with the head

  /// First message of a frame.
  struct FirstMessage {
    FrameHead head;
    std::uint32_t parts = 0;  // number of the messages that follow; 0: the content is here
    std::uint32_t unused = 0;
    union {
      std::array<std::uint32_t, kMostParts> sizes;  // bytes of each
      std::array<std::byte, kWithHead> content;
    };
    FirstMessage() : content{} {}
    std::size_t bytes() const;
  };
  /// A frame that MPI has.
  struct InFlight {
    FirstMessage first;
    std::vector<std::byte> own;
    std::array<MpiRequest, 1 + kMostParts> requests;  // that of the first message, and those of the parts
    std::atomic<std::uint32_t>* gone = nullptr;
    std::shared_ptr<const void> keep;
    bool is_foreign = false;  // its parts are others' memory
  };

  // Called with the mutex.
  void begin(OutgoingFrame&);
  bool count_gone();
  bool pump();  // true: some have gone

  // Called by the thread that receives.
  void await_first();
  void take_rest() noexcept;

  static constexpr std::size_t kMostInFlight = 8;

  std::shared_ptr<MpiChannel> channel_;
  int rank_;
  int first_tag_;

  mutable std::mutex mutex_;  // guards what follows: any thread sends
  std::deque<OutgoingFrame> queue_;
  std::deque<std::shared_ptr<InFlight>> in_flight_;  // frames in their order
  std::vector<std::shared_ptr<InFlight>> spare_;
  bool cut_ = false;
  bool broken_ = false;

  std::shared_ptr<FirstMessage> first_;  // this and what follows belong to the thread that receives
  MpiRequest first_request_;
  std::array<MpiRequest, kMostParts> part_requests_;
  bool has_head_ = false;
  bool placed_ = false;
  bool ended_ = false;
  bool left_ = false;  // the other side has ended well: it receives nothing any more
  std::shared_ptr<std::vector<std::byte>> dropped_ = std::make_shared<std::vector<std::byte>>();  // takes the rest
};

}  // namespace tutti
