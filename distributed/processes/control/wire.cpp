// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control/wire.h>

#include <algorithm>
#include <concepts>
#include <utility>

namespace tutti::control {

namespace {

constexpr std::uint32_t kMagic = 0x43545455;  // "UTTC"

class Writer {
 public:
  template <std::unsigned_integral T> void number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i)
      bytes_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
  }
  void text(std::string_view text, std::size_t most = kMostTextBytes) {
    text = text.substr(0, most);
    number(static_cast<std::uint16_t>(text.size()));
    raw(std::as_bytes(std::span(text)));
  }
  void raw(ByteView bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// Reads until something does not fit; from then on everything is 0 or empty.
class Reader {
 public:
  explicit Reader(ByteView bytes) : bytes_(bytes) {}

  template <std::unsigned_integral T> T number() {
    std::uint64_t value = 0;
    const ByteView part = raw(sizeof(T));
    for (std::size_t i = 0; i < part.size(); ++i) value |= std::to_integer<std::uint64_t>(part[i]) << (8 * i);
    return static_cast<T>(value);
  }
  std::string text(std::size_t most = kMostTextBytes) {
    const std::size_t size = number<std::uint16_t>();
    if (size > most) good_ = false;
    const ByteView part = raw(size);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  ByteView raw(std::size_t size) {
    if (size > bytes_.size()) good_ = false;
    if (!good_) return {};
    const ByteView part = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return part;
  }
  ByteView rest() { return raw(bytes_.size()); }
  void refuse() { good_ = false; }
  bool good() const { return good_; }
  bool at_end() const { return good_ && bytes_.empty(); }

 private:
  ByteView bytes_;
  bool good_ = true;
};

// A frame begins with a byte that is its place in the variant.

void write(Writer& writer, const Hello& hello) {
  writer.number(kMagic);
  writer.number(hello.protocol);
  writer.number(static_cast<std::uint8_t>(hello.byte_order));
  writer.number(hello.rank);
  writer.number(hello.pid);
  writer.text(hello.host);
  writer.number(hello.instance);
  writer.number(hello.world_size);
  writer.text(hello.job);
  writer.text(hello.library, 32);
  writer.text(hello.instructions, 128);
  writer.text(hello.address, 128);
  writer.raw(hello.options);
}

void read(Reader& reader, Hello& hello) {
  if (reader.number<std::uint32_t>() != kMagic) reader.refuse();
  hello.protocol = reader.number<std::uint16_t>();
  hello.byte_order = static_cast<ByteOrder>(reader.number<std::uint8_t>());
  if (hello.byte_order != ByteOrder::little && hello.byte_order != ByteOrder::big) reader.refuse();
  hello.rank = reader.number<std::uint32_t>();
  hello.pid = reader.number<std::uint64_t>();
  hello.host = reader.text();
  if (hello.protocol != kProtocol) return void(reader.rest());
  hello.instance = reader.number<std::uint64_t>();
  hello.world_size = reader.number<std::uint32_t>();
  hello.job = reader.text();
  hello.library = reader.text(32);
  hello.instructions = reader.text(128);
  hello.address = reader.text(128);
  std::ranges::copy(reader.raw(hello.options.size()), hello.options.begin());
}

void write(Writer& writer, const Welcome& welcome) {
  writer.number(static_cast<std::uint16_t>(welcome.members.size()));
  for (const Member& member : welcome.members) {
    writer.number(member.rank);
    writer.number(member.pid);
    writer.text(member.host);
    writer.text(member.address, 128);
  }
}

void read(Reader& reader, Welcome& welcome) {
  const std::size_t members = reader.number<std::uint16_t>();
  if (members > kMostMembersOfFrame) reader.refuse();
  for (std::size_t i = 0; i < members && reader.good(); ++i) {
    Member member;
    member.rank = reader.number<std::uint32_t>();
    member.pid = reader.number<std::uint64_t>();
    member.host = reader.text();
    member.address = reader.text(128);
    welcome.members.push_back(std::move(member));
  }
}

void write(Writer& writer, const Refusal& refusal) { writer.text(refusal.reason, kMostReasonBytes); }
void read(Reader& reader, Refusal& refusal) { refusal.reason = reader.text(kMostReasonBytes); }

void write(Writer& writer, const Waiting& waiting) { writer.text(waiting.missing, kMostReasonBytes); }
void read(Reader& reader, Waiting& waiting) { waiting.missing = reader.text(kMostReasonBytes); }

void write(Writer& writer, const Heartbeat& heartbeat) { writer.number(heartbeat.progress); }
void read(Reader& reader, Heartbeat& heartbeat) { heartbeat.progress = reader.number<std::uint64_t>(); }

void write(Writer& writer, const Data& data) { writer.raw(data.bytes); }
void read(Reader& reader, Data& data) {
  const ByteView rest = reader.rest();
  data.bytes.assign(rest.begin(), rest.end());
}

template <std::size_t Kind = 0> std::optional<Frame> decode_kind(std::size_t kind, Reader& reader) {
  if constexpr (Kind < std::variant_size_v<Frame>) {
    if (kind != Kind) return decode_kind<Kind + 1>(kind, reader);
    std::variant_alternative_t<Kind, Frame> frame;
    read(reader, frame);
    return reader.at_end() ? std::optional<Frame>(std::move(frame)) : std::nullopt;
  } else {
    return std::nullopt;
  }
}

}  // namespace

Bytes encode(const Frame& frame) {
  Writer writer;
  writer.number(static_cast<std::uint8_t>(frame.index()));
  std::visit([&](const auto& each) { write(writer, each); }, frame);
  return writer.take();
}

std::optional<Frame> decode(ByteView bytes) {
  if (bytes.empty() || bytes.size() > kMostFrameBytes) return std::nullopt;
  Reader reader(bytes.subspan(1));
  return decode_kind(std::to_integer<std::size_t>(bytes[0]), reader);
}

}  // namespace tutti::control
