// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/lines/socket_line.h>

#include <doctest/doctest.h>

#include <sys/socket.h>

#include <cstring>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

struct Pair {
  explicit Pair(FrameCipher::Kind kind) {
    int ends[2] = {-1, -1};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    const int small = 1;  // the least that the kernel gives
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    FrameCipher::Key one{};
    FrameCipher::Key other{};
    other[0] = 1;
    sends = std::make_unique<SocketLine>(OwnedDescriptor(ends[0]), kind, one, other);
    receives = std::make_unique<SocketLine>(OwnedDescriptor(ends[1]), kind, other, one);
  }
  std::unique_ptr<FrameLine> sends;
  std::unique_ptr<FrameLine> receives;
  std::vector<std::byte> content;  // of the frame that is being received
};

OutgoingFrame frame(std::uint32_t number, std::size_t bytes) {
  OutgoingFrame made{.head = {.kind = FrameHead::Kind::slices, .number = number}};
  made.head.bytes = static_cast<std::uint32_t>(bytes);
  made.own.assign(bytes, static_cast<std::byte>(number));
  return made;
}

/// Frames that have come, until nothing more does; false if one was taken for forged.
bool receive_all(Pair& pair, std::vector<std::uint32_t>& numbers) {
  FrameLine& line = *pair.receives;
  for (;;) switch (line.read()) {
      case FrameLine::Read::nothing_yet: return true;
      case FrameLine::Read::end:
      case FrameLine::Read::forged: return false;
      case FrameLine::Read::head:
        pair.content.resize(line.head().bytes);
        line.place(pair.content);
        break;
      case FrameLine::Read::frame:
        numbers.push_back(line.head().number);
        for (const std::byte byte : pair.content) CHECK(byte == static_cast<std::byte>(line.head().number));
        line.next();
    }
}

}  // namespace

TEST_CASE("network: a full socket before, in and behind any frame loses and forges nothing") {
  for (const auto kind : {FrameCipher::Kind::none, FrameCipher::Kind::chacha}) {
    Pair pair(kind);
    std::vector<std::uint32_t> numbers;
    constexpr std::uint32_t kFrames = 400;
    for (std::uint32_t i = 0; i < kFrames; ++i) pair.sends->put(frame(i, i * 37 % 2000));
    bool counted = false;
    int full = 0;
    for (;;) {
      // Tried twice where nothing goes: a frame that is encrypted and has not begun to go is the same one then.
      auto flow = pair.sends->send(SIZE_MAX, counted);
      if (flow == FrameLine::Flow::waiting) flow = pair.sends->send(SIZE_MAX, counted);
      REQUIRE(flow != FrameLine::Flow::broken);
      REQUIRE(receive_all(pair, numbers));
      if (flow == FrameLine::Flow::idle) break;
      ++full;
    }
    CHECK(full > 3);
    REQUIRE(receive_all(pair, numbers));
    REQUIRE(numbers.size() == kFrames);
    for (std::uint32_t i = 0; i < kFrames; ++i) CHECK(numbers[i] == i);
  }
}

TEST_CASE("network: what follows a line that was cut is read, whatever of a frame had gone") {
  for (const auto kind : {FrameCipher::Kind::none, FrameCipher::Kind::chacha})
    for (std::uint32_t before = 1; before < 60; ++before) {
      Pair pair(kind);
      std::vector<std::uint32_t> numbers;
      for (std::uint32_t i = 0; i < before; ++i) pair.sends->put(frame(i, 500));
      bool counted = false;
      static_cast<void>(pair.sends->send(SIZE_MAX, counted));
      static_cast<void>(pair.sends->send(SIZE_MAX, counted));
      pair.sends->cut(frame(1000, 20));
      do {
        REQUIRE(receive_all(pair, numbers));
      } while (pair.sends->send(SIZE_MAX, counted) != FrameLine::Flow::idle);
      REQUIRE(receive_all(pair, numbers));
      REQUIRE(!numbers.empty());
      CHECK(numbers.back() == 1000);
    }
}

TEST_SUITE_END();
