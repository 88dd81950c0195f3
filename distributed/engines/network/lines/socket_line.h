// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/owned_descriptor.h>
#include <tutti/distributed/engines/network/lines/frame_cipher.h>
#include <tutti/distributed/engines/network/lines/frame_line.h>

#include <array>
#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

namespace tutti {

/// A connection to another process: frames go over a socket, without copies where they are not encrypted.
class SocketLine final : public FrameLine {
 public:
  /// `sends`, `receives`: the directions' keys.
  SocketLine(OwnedDescriptor, FrameCipher::Kind, const FrameCipher::Key& sends, const FrameCipher::Key& receives);

  int descriptor() const noexcept { return socket_.get(); }

  void put(OutgoingFrame) override;
  Flow send(std::size_t most, bool& counted) override;
  bool has_more() const override;
  bool all_counted() override;
  void cut(OutgoingFrame last) override;
  void cut_all() noexcept override;
  bool has_let_go() noexcept override { return true; }
  std::size_t unsent() override;
  void shut() noexcept override;

  Read read() override;
  void place(std::span<std::byte> target) override;
  void next() override;

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
  std::array<std::byte, sizeof(FrameHead)> head_bytes_{};
  std::size_t received_ = 0;  // bytes of the head, and then of the content
  bool has_head_ = false;
  bool placed_ = false;
  std::span<std::byte> target_;
  std::vector<std::byte> sealed_in_;
};

}  // namespace tutti
