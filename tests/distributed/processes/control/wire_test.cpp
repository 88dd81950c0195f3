// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control/wire.h>

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti::control;

namespace {

std::vector<Frame> frames() {
  Hello hello;
  hello.rank = 3;
  hello.pid = 0x1234567890ULL;
  hello.host = "node07.example";
  hello.instance = ~std::uint64_t{0};
  hello.world_size = 4;
  hello.job = "123.0";
  hello.library = "0.1.0";
  hello.instructions = "x86-64-v3";
  hello.address = "[fe80::1]:4000";
  hello.options.fill(std::byte{0xa5});
  Hello longest = hello;
  longest.host = longest.job = std::string(kMostTextBytes, 'h');
  longest.library = std::string(32, 'l');
  longest.instructions = std::string(64, 'i');
  longest.address = std::string(128, 'a');
  const Member member{.rank = 7, .pid = 1, .host = longest.host, .address = longest.address};
  return {hello,
          longest,
          Welcome{},
          Welcome{std::vector<Member>(kMostMembersOfFrame, member)},
          Refusal{"rank 2 says 4"},
          Refusal{std::string(kMostReasonBytes, 'r')},
          Waiting{"rank 1 is missing"},
          Heartbeat{0x0102030405060708},
          Data{},
          Data{Bytes(kMostDataBytes, std::byte{7})}};
}

}  // namespace

TEST_CASE("wire: what was encoded is decoded, within the limits") {
  for (const Frame& frame : frames()) {
    const Bytes bytes = encode(frame);
    CHECK(bytes.size() <= kMostFrameBytes);
    if (!std::holds_alternative<Welcome>(frame) && !std::holds_alternative<Data>(frame))
      CHECK(bytes.size() <= kMostHandshakeBytes);
    const auto decoded = decode(bytes);
    REQUIRE(decoded.has_value());
    CHECK(*decoded == frame);
  }
}

TEST_CASE("wire: integers have their least byte first") {
  const Bytes bytes = encode(Heartbeat{0x0102});
  REQUIRE(bytes.size() == 9);
  CHECK(bytes[1] == std::byte{2});
  CHECK(bytes[2] == std::byte{1});
}

TEST_CASE("wire: a frame cut anywhere, or longer, is none") {
  for (const Frame& frame : frames()) {
    if (std::holds_alternative<Data>(frame)) continue;  // any bytes are data
    Bytes bytes = encode(frame);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      if (decode(ByteView(bytes).first(size)).has_value()) FAIL("decoded ", size, " of ", bytes.size(), " bytes");
    bytes.push_back({});
    CHECK_FALSE(decode(bytes).has_value());
  }
  CHECK_FALSE(decode(Bytes(kMostFrameBytes + 1, std::byte{5})).has_value());
}

TEST_CASE("wire: lengths that are not there, or over their limit, are refused") {
  Bytes refusal = encode(Refusal{"abc"});
  refusal[1] = refusal[2] = std::byte{0xff};
  CHECK_FALSE(decode(refusal).has_value());
  // Long enough, but more than any reason.
  Bytes reason = encode(Refusal{std::string(kMostReasonBytes, 'r')});
  reason.push_back(std::byte{'r'});
  reason[1] = static_cast<std::byte>((kMostReasonBytes + 1) & 0xff);
  reason[2] = static_cast<std::byte>((kMostReasonBytes + 1) >> 8);
  CHECK_FALSE(decode(reason).has_value());
  Bytes welcome = encode(Welcome{});
  welcome[1] = welcome[2] = std::byte{0xff};
  CHECK_FALSE(decode(welcome).has_value());
}

TEST_CASE("wire: texts are cut when they are written") {
  const auto decoded = decode(encode(Refusal{std::string(5000, 'r')}));
  REQUIRE(decoded.has_value());
  CHECK(std::get<Refusal>(*decoded).reason.size() == kMostReasonBytes);
}

TEST_CASE("wire: a hello of another version tells who it is, and one without the magic nothing") {
  Hello other = std::get<Hello>(frames()[0]);
  other.protocol = kProtocol + 1;
  Bytes bytes = encode(other);
  bytes.insert(bytes.end(), 40, std::byte{9});  // fields that we do not know
  const auto decoded = decode(bytes);
  REQUIRE(decoded.has_value());
  const auto& hello = std::get<Hello>(*decoded);
  CHECK(hello.protocol == kProtocol + 1);
  CHECK(hello.rank == 3);
  CHECK(hello.host == "node07.example");
  CHECK(hello.job.empty());
  bytes[1] ^= std::byte{1};
  CHECK_FALSE(decode(bytes).has_value());
}

// Whatever comes, what is decoded is within the limits, and encodes to what came.
TEST_CASE("wire: garbage and changed frames never decode to anything that does not encode to the same") {
  std::mt19937 random(20);
  const auto seeds = frames();
  std::size_t decoded_frames = 0;
  for (int i = 0; i < 60'000; ++i) {
    Bytes bytes;
    if (i % 3 == 0) {
      bytes.resize(random() % 300);
      for (std::byte& each : bytes) each = static_cast<std::byte>(random());
      if (!bytes.empty()) bytes[0] = static_cast<std::byte>(random() % 8);
    } else {
      const Frame& seed = seeds[random() % seeds.size()];
      if (std::holds_alternative<Data>(seed)) continue;
      bytes = encode(seed);
      for (std::size_t changes = 1 + random() % 3; changes > 0; --changes)
        bytes[random() % std::min<std::size_t>(bytes.size(), 400)] = static_cast<std::byte>(random());
      if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
    }
    const auto decoded = decode(bytes);
    if (!decoded) continue;
    ++decoded_frames;
    const auto* hello = std::get_if<Hello>(&*decoded);
    if (hello != nullptr && hello->protocol != kProtocol) continue;  // whose rest was not read
    if (encode(*decoded) != bytes) FAIL("frame ", i, " encodes to something else");
  }
  CHECK(decoded_frames > 1000);
}

TEST_SUITE_END();
