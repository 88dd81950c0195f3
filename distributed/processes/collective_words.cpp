// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/collective_words.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace tutti {

namespace {

using Bytes = ProcessLink::Bytes;

// As they lie in memory: the processes of a group have one byte order, which their handshake compares.
struct Head {
  std::int64_t number = 0;
  std::uint8_t kind = 0;
  std::uint8_t operation = 0;
  std::uint8_t dtype = 0;
  std::uint8_t differentiable = 0;
  std::int32_t root = 0;
  std::uint16_t root_device = 0;
  std::uint8_t root_kind = 0;
  std::uint8_t unused = 0;
  std::uint32_t dimensions = 0;
  std::uint32_t purpose = 0;  // bytes of it
  std::uint32_t none = 0;
};
static_assert(sizeof(Head) == 32);

class Writer {
 public:
  template <class T> void add(const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  /// Zero once the bytes have not sufficed.
  template <class T> T next() {
    T value{};
    if (bytes_.size() < sizeof(T)) fits_ = false;
    if (!fits_) return value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  std::optional<std::vector<std::int64_t>> list(std::size_t length) {
    if (!fits_ || bytes_.size() / sizeof(std::int64_t) < length) return std::nullopt;
    std::vector<std::int64_t> values(length);
    for (std::int64_t& value : values) value = next<std::int64_t>();
    return values;
  }
  std::optional<std::string> text(std::size_t length) {
    if (!fits_ || bytes_.size() < length) return std::nullopt;
    std::string text(reinterpret_cast<const char*>(bytes_.data()), length);
    bytes_ = bytes_.subspan(length);
    return text;
  }
  bool ended_well() const { return fits_ && bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  bool fits_ = true;
};

std::optional<PostedCollective> posted_in(std::span<const std::byte> bytes, std::size_t devices) {
  Reader reader(bytes);
  const auto head = reader.next<Head>();
  const auto shape = reader.list(head.dimensions);
  auto purpose = reader.text(head.purpose);
  if (!shape || !purpose || head.kind > static_cast<std::uint8_t>(CollectiveKind::gather_in_place) ||
      head.operation > static_cast<std::uint8_t>(CollectiveOperation::min) || head.dtype >= std::size(kAllDTypes))
    return std::nullopt;
  CollectiveCall call{.kind = static_cast<CollectiveKind>(head.kind),
                      .operation = static_cast<CollectiveOperation>(head.operation),
                      .root = {head.root, {static_cast<DeviceKind>(head.root_kind), head.root_device}},
                      .shape = Shape(*shape),
                      .dtype = static_cast<DType>(head.dtype),
                      .purpose = *std::move(purpose)};
  PostedCollective posted{.number = head.number, .differentiable = head.differentiable != 0};
  for (std::size_t device = 0; device < devices; ++device) {
    const auto rows = reader.next<std::int64_t>();
    const auto lengths = reader.list(reader.next<std::uint32_t>());
    if (!lengths) return std::nullopt;
    if (!call.shape.empty()) call.shape[0] = rows;
    call.lengths = *lengths;
    posted.calls.push_back(call);
  }
  return reader.ended_well() ? std::optional(std::move(posted)) : std::nullopt;
}

}  // namespace

Bytes words_of(const PostedCollective& posted) {
  const CollectiveCall& first = posted.calls.at(0);
  Writer writer;
  writer.add(Head{.number = posted.number,
                  .kind = static_cast<std::uint8_t>(first.kind),
                  .operation = static_cast<std::uint8_t>(first.operation),
                  .dtype = static_cast<std::uint8_t>(first.dtype),
                  .differentiable = posted.differentiable,
                  .root = first.root.rank,
                  .root_device = first.root.device.index,
                  .root_kind = static_cast<std::uint8_t>(first.root.device.kind),
                  .dimensions = static_cast<std::uint32_t>(first.shape.size()),
                  .purpose = static_cast<std::uint32_t>(first.purpose.size())});
  for (const std::int64_t dimension : first.shape) writer.add(dimension);
  for (const char character : first.purpose) writer.add(character);
  for (const CollectiveCall& call : posted.calls) {
    writer.add(call.shape.empty() ? std::int64_t{0} : call.shape[0]);
    writer.add(static_cast<std::uint32_t>(call.lengths.size()));
    for (const std::int64_t length : call.lengths) writer.add(length);
  }
  return writer.take();
}

PostedCollective posted_by_all(std::span<const Bytes> by_rank, const GroupMembers& members) {
  PostedCollective all;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto devices = std::ranges::count(members.group(), static_cast<int>(rank), &Member::rank);
    auto posted = posted_in(by_rank[rank], static_cast<std::size_t>(devices));
    if (!posted)
      raise<SyncError>("[sync] rank {} said {} bytes about a collective, which are none", rank, by_rank[rank].size());
    if (rank == 0) all.number = posted->number;
    if (posted->number != all.number)
      raise<SyncError>("[sync] rank {} has posted collective {}, rank 0 {}", rank, posted->number, all.number);
    all.differentiable |= posted->differentiable;
    for (CollectiveCall& call : posted->calls) all.calls.push_back(std::move(call));
  }
  for (std::size_t number = 1; number < all.calls.size(); ++number)
    if (!agree(all.calls[number], all.calls[0]))
      raise<SyncError>("[sync] collective {} is {} on {} and {} on {}", all.number,
                       to_string(all.calls[0], members.world()), to_string(members.group()[0], members.world()),
                       to_string(all.calls[number], members.world()),
                       to_string(members.group()[number], members.world()));
  return all;
}

}  // namespace tutti
