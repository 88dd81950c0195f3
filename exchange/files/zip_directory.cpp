// SPDX-License-Identifier: Apache-2.0
// The directory of a zip archive, which everything else is checked against.
#include <tutti/backend/raise.h>
#include <tutti/exchange/files/utf8.h>
#include <tutti/exchange/files/zip_archive.h>
#include <tutti/exchange/files/zip_format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

namespace tutti::detail {
namespace {

constexpr std::uint64_t kMostExpansion = 1032;  // of deflate: 258 bytes from two bits

/// Bytes of the archive, read in order; a complaint holds the offset in the file.
class Record {
 public:
  Record(const std::string& path, std::uint64_t offset, std::span<const std::byte> bytes)
      : path_(path), offset_(offset), bytes_(bytes) {}

  template <class T> T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::uint16_t u16() { return number<std::uint16_t>(); }
  std::uint32_t u32() { return number<std::uint32_t>(); }
  std::uint64_t u64() { return number<std::uint64_t>(); }
  std::span<const std::byte> take(std::size_t count) {
    if (count > left()) fail("truncated");
    position_ += count;
    return bytes_.subspan(position_ - count, count);
  }
  std::string text(std::size_t count) {
    const auto taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  Record part(std::size_t count) {
    const std::uint64_t begin = offset_ + position_;
    return {path_, begin, take(count)};
  }
  std::size_t left() const { return bytes_.size() - position_; }
  [[noreturn]] void fail(const std::string& what) const {
    raise<DataError>("[zip] {}: {} at offset {}", path_, what, offset_ + position_);
  }

 private:
  const std::string& path_;
  std::uint64_t offset_;
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

struct DirectoryPlace {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

class DirectoryReader {
 public:
  DirectoryReader(FileDescriptor& file, const std::string& path, std::uint64_t file_bytes)
      : file_(file), path_(path), file_bytes_(file_bytes) {}

  std::vector<ZipMember> read() {
    const DirectoryPlace place = find();
    const std::vector<std::byte> bytes = read_at(place.offset, place.bytes);
    Record record(path_, place.offset, bytes);
    std::vector<ZipMember> members;
    std::set<std::string> names;
    for (std::uint64_t i = 0; i < place.entries; ++i) {
      members.push_back(entry(record));
      if (!names.insert(members.back().name).second)
        record.fail(fmt::format("\"{}\" stands twice", members.back().name));
    }
    if (record.left() > 0) record.fail("unexpected bytes in the directory");
    for (ZipMember& member : members) locate(member);
    check_overlaps(members, place.offset);
    return members;
  }

 private:
  std::vector<std::byte> read_at(std::uint64_t offset, std::uint64_t bytes) {
    if (offset > file_bytes_ || bytes > file_bytes_ - offset)
      raise<DataError>("[zip] {}: {} bytes at offset {} of {}", path_, bytes, offset, file_bytes_);
    std::vector<std::byte> result(bytes);
    file_.read_at(offset, result.data(), result.size());
    return result;
  }

  /// The record at the end of the file, behind which there is at most a comment.
  std::uint64_t end_record(const std::vector<std::byte>& tail, std::uint64_t tail_offset) const {
    for (std::uint64_t at = tail.size() < zip::kEndBytes ? 0 : tail.size() - zip::kEndBytes + 1; at-- > 0;) {
      std::uint32_t signature = 0;
      std::uint16_t comment = 0;
      std::memcpy(&signature, &tail[at], sizeof signature);
      std::memcpy(&comment, &tail[at + zip::kEndBytes - sizeof comment], sizeof comment);
      if (signature == zip::kEndOfDirectory && at + zip::kEndBytes + comment == tail.size()) return tail_offset + at;
    }
    raise<DataError>("[zip] {}: no zip archive, or truncated: no directory before offset {}", path_, file_bytes_);
  }

  DirectoryPlace find() {
    const std::uint64_t most = std::min<std::uint64_t>(file_bytes_, zip::kEndBytes + 0xffff);
    const std::vector<std::byte> tail = read_at(file_bytes_ - most, most);
    const std::uint64_t end = end_record(tail, file_bytes_ - most);
    const std::vector<std::byte> bytes = read_at(end, zip::kEndBytes);
    Record record(path_, end, bytes);
    record.u32();
    if (record.u16() != 0 || record.u16() != 0) record.fail("archives of several parts are not read,");
    DirectoryPlace place;
    record.u16();
    place.entries = record.u16();
    place.bytes = record.u32();
    place.offset = record.u32();
    std::uint64_t limit = end;
    if (place.entries == zip::kCountIn64 || place.bytes == zip::kIn64 || place.offset == zip::kIn64)
      place = find64(end, limit);
    if (place.offset > limit || place.bytes > limit - place.offset)
      raise<DataError>("[zip] {}: the directory of {} bytes at offset {} does not end before {}", path_, place.bytes,
                       place.offset, limit);
    if (place.entries > place.bytes / zip::kDirectoryEntryBytes)
      raise<DataError>("[zip] {}: {} members in a directory of {} bytes at offset {}", path_, place.entries,
                       place.bytes, place.offset);
    return place;
  }

  DirectoryPlace find64(std::uint64_t end, std::uint64_t& limit) {
    if (end < zip::kLocatorBytes) raise<DataError>("[zip] {}: no zip64 directory before offset {}", path_, end);
    const std::vector<std::byte> locator_bytes = read_at(end - zip::kLocatorBytes, zip::kLocatorBytes);
    Record locator(path_, end - zip::kLocatorBytes, locator_bytes);
    if (locator.u32() != zip::kLocator64) locator.fail("no zip64 locator");
    locator.u32();
    limit = locator.u64();
    const std::vector<std::byte> bytes = read_at(limit, zip::kEnd64Bytes);
    Record record(path_, limit, bytes);
    if (record.u32() != zip::kEndOfDirectory64) record.fail("no zip64 directory");
    record.take(28);
    DirectoryPlace place;
    place.entries = record.u64();
    place.bytes = record.u64();
    place.offset = record.u64();
    return place;
  }

  ZipMember entry(Record& record) const {
    if (record.u32() != zip::kDirectoryEntry) record.fail("no directory entry");
    ZipMember member;
    record.u32();  // versions
    const std::uint16_t flags = record.u16();
    const std::uint16_t method = record.u16();
    record.u32();  // time
    member.crc = record.u32();
    member.packed_bytes = record.u32();
    member.bytes = record.u32();
    const std::uint16_t name = record.u16();
    const std::uint16_t extra = record.u16();
    const std::uint16_t comment = record.u16();
    record.take(8);  // part, attributes
    member.header = record.u32();
    member.name = record.text(name);
    Record extras = record.part(extra);
    record.take(comment);
    if (!is_utf8(member.name)) record.fail("a name that is not UTF-8");
    if ((flags & zip::kEncrypted) != 0) record.fail(fmt::format("\"{}\" is encrypted", member.name));
    if (method != zip::kStored && method != zip::kDeflated)
      record.fail(fmt::format("\"{}\" is packed in an unknown way, {}", member.name, method));
    member.is_deflated = method == zip::kDeflated;
    read_extras(extras, member);
    const bool is_possible =
        member.is_deflated ? member.bytes / kMostExpansion <= member.packed_bytes : member.bytes == member.packed_bytes;
    if (!is_possible)
      record.fail(
          fmt::format("\"{}\" cannot be {} bytes, packed into {}", member.name, member.bytes, member.packed_bytes));
    return member;
  }

  static void read_extras(Record& extras, ZipMember& member) {
    while (extras.left() >= 4) {
      const std::uint16_t kind = extras.u16();
      Record field = extras.part(extras.u16());
      if (kind != zip::kExtra64) continue;
      for (std::uint64_t* value : {&member.bytes, &member.packed_bytes, &member.header})
        if (*value == zip::kIn64) *value = field.u64();
    }
  }

  /// The local header says where the bytes begin.
  void locate(ZipMember& member) {
    const std::vector<std::byte> bytes = read_at(member.header, zip::kLocalHeaderBytes);
    Record record(path_, member.header, bytes);
    if (record.u32() != zip::kLocalHeader) record.fail(fmt::format("\"{}\" has no header", member.name));
    record.take(22);
    const std::uint16_t name = record.u16();
    const std::uint16_t extra = record.u16();
    member.data = member.header + zip::kLocalHeaderBytes + name + extra;
    const std::vector<std::byte> here = read_at(member.header + zip::kLocalHeaderBytes, name);
    if (std::string_view(reinterpret_cast<const char*>(here.data()), here.size()) != member.name)
      record.fail(fmt::format("\"{}\" has another name in its header", member.name));
  }

  /// Members that share bytes are how a small archive claims to hold more than any disk.
  void check_overlaps(const std::vector<ZipMember>& members, std::uint64_t directory) const {
    std::vector<const ZipMember*> order;
    for (const ZipMember& member : members) order.push_back(&member);
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->header < b->header; });
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::uint64_t limit = i + 1 < order.size() ? order[i + 1]->header : directory;
      if (order[i]->data > limit || order[i]->packed_bytes > limit - order[i]->data)
        raise<DataError>("[zip] {}: \"{}\", {} bytes at offset {}, reaches beyond {}", path_, order[i]->name,
                         order[i]->packed_bytes, order[i]->data, limit);
    }
  }

  FileDescriptor& file_;
  const std::string& path_;
  std::uint64_t file_bytes_;
};

}  // namespace

std::vector<ZipMember> read_zip_directory(FileDescriptor& file, const std::string& path, std::uint64_t file_bytes) {
  return DirectoryReader(file, path, file_bytes).read();
}

}  // namespace tutti::detail
