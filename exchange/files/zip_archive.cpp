// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/files/zip_archive.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/files/zip_format.h>

#include <zlib.h>

#include <algorithm>
#include <limits>

namespace tutti::detail {
namespace {

constexpr std::size_t kMostAtOnce = std::numeric_limits<uInt>::max();

Bytef* as_zlib(const std::byte* data) { return reinterpret_cast<Bytef*>(const_cast<std::byte*>(data)); }

/// Gives zlib the next part of what it reads and writes; it counts in 32 bits.
struct ZlibBuffers {
  std::span<const std::byte> in;
  std::span<std::byte> out;

  void refill(z_stream& stream) {
    if (stream.avail_in == 0) {
      stream.next_in = as_zlib(in.data());
      stream.avail_in = static_cast<uInt>(std::min(in.size(), kMostAtOnce));
      in = in.subspan(stream.avail_in);
    }
    if (stream.avail_out == 0) {
      stream.next_out = as_zlib(out.data());
      stream.avail_out = static_cast<uInt>(std::min(out.size(), kMostAtOnce));
      out = out.subspan(stream.avail_out);
    }
  }
};

/// Fills `out` from raw deflated bytes; false unless these hold just so many.
bool inflate_into(std::span<const std::byte> packed, std::span<std::byte> out) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  std::byte none{};  // zlib wants somewhere to write even when nothing is left to
  ZlibBuffers buffers{packed, out.empty() ? std::span(&none, 1) : out};
  int status = Z_OK;
  while (status == Z_OK) {
    buffers.refill(stream);
    status = inflate(&stream, Z_NO_FLUSH);
  }
  const bool is_whole = status == Z_STREAM_END && stream.avail_in == 0 && buffers.in.empty() && buffers.out.empty() &&
                        stream.avail_out == (out.empty() ? 1U : 0U);
  inflateEnd(&stream);
  return is_whole;
}

std::vector<std::byte> deflated(std::span<const std::byte> bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::vector<std::byte> packed(bytes.size() + bytes.size() / 1000 + 1024);  // more than incompressible data takes
  ZlibBuffers buffers{bytes, packed};
  int status = Z_OK;
  while (status == Z_OK) {
    buffers.refill(stream);
    status = deflate(&stream, buffers.in.empty() ? Z_FINISH : Z_NO_FLUSH);
  }
  const std::size_t left = buffers.out.size() + stream.avail_out;
  deflateEnd(&stream);
  if (status != Z_STREAM_END) raise("[zip] deflate failed with status {}", status);
  packed.resize(packed.size() - left);
  return packed;
}

template <class T> void append(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append(std::string& text, std::initializer_list<std::uint16_t> values) {
  for (const std::uint16_t value : values) append(text, value);
}

constexpr std::uint16_t kVersion = 45;            // knows zip64
constexpr std::uint16_t kNoDate = 1U << 5U | 1U;  // 1980-01-01: the same arrays give the same file

std::uint32_t clipped(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, zip::kIn64));
}

bool is_large(std::uint64_t value) { return value >= zip::kIn64; }
bool is_large(const ZipMember& member) { return is_large(member.bytes) || is_large(member.packed_bytes); }

/// The part that local header and directory entry have in common: flags to the length of the name.
std::string common_fields(const ZipMember& member) {
  std::string text;
  append(text, {zip::kUtf8, member.is_deflated ? zip::kDeflated : zip::kStored, 0, kNoDate});
  append(text, member.crc);
  // In 64 bits, elsewhere: both or neither.
  append(text, is_large(member) ? zip::kIn64 : static_cast<std::uint32_t>(member.packed_bytes));
  append(text, is_large(member) ? zip::kIn64 : static_cast<std::uint32_t>(member.bytes));
  append(text, static_cast<std::uint16_t>(member.name.size()));
  return text;
}

std::string extra64(std::initializer_list<std::uint64_t> values) {
  std::string text;
  if (values.size() == 0) return text;
  append(text, {zip::kExtra64, static_cast<std::uint16_t>(8 * values.size())});
  for (const std::uint64_t value : values) append(text, value);
  return text;
}

std::string local_header(const ZipMember& member) {
  constexpr std::uint64_t kAlignment = 64;
  std::string extra;
  if (is_large(member)) extra = extra64({member.bytes, member.packed_bytes});
  const std::uint64_t before = member.header + zip::kLocalHeaderBytes + member.name.size() + extra.size() + 4;
  const auto padding = static_cast<std::uint16_t>((kAlignment - before % kAlignment) % kAlignment);
  append(extra, {zip::kExtraPadding, padding});
  extra.append(padding, '\0');
  std::string text;
  append(text, zip::kLocalHeader);
  append(text, kVersion);
  text += common_fields(member);
  append(text, static_cast<std::uint16_t>(extra.size()));
  return text + member.name + extra;
}

std::string directory_entry(const ZipMember& member) {
  std::string extra;
  if (is_large(member) && is_large(member.header))
    extra = extra64({member.bytes, member.packed_bytes, member.header});
  else if (is_large(member))
    extra = extra64({member.bytes, member.packed_bytes});
  else if (is_large(member.header))
    extra = extra64({member.header});
  std::string text;
  append(text, zip::kDirectoryEntry);
  append(text, {kVersion, kVersion});
  text += common_fields(member);
  append(text, {static_cast<std::uint16_t>(extra.size()), 0, 0, 0, 0, 0});
  append(text, clipped(member.header));
  return text + member.name + extra;
}

std::uint32_t crc32_of(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, as_zlib(bytes.data()), bytes.size()));
}

void check_crc(const std::string& path, const ZipMember& member, std::uint32_t crc) {
  if (crc != member.crc)
    raise<DataError>("[zip] {}: \"{}\" at offset {} is damaged: its CRC is {:08x}, the directory says {:08x}", path,
                     member.name, member.data, crc, member.crc);
}

}  // namespace

std::vector<std::byte> inflate_zip_member(FileDescriptor& file, const std::string& path, const ZipMember& member) {
  std::vector<std::byte> packed(member.packed_bytes);
  file.read_at(member.data, packed.data(), packed.size());
  std::vector<std::byte> bytes(member.bytes);
  if (!inflate_into(packed, bytes))
    raise<DataError>("[zip] {}: \"{}\" at offset {} is damaged", path, member.name, member.data);
  check_crc(path, member, crc32_of(bytes));
  return bytes;
}

void check_stored_zip_member(FileDescriptor& file, const std::string& path, const ZipMember& member) {
  std::vector<std::byte> block(std::min<std::uint64_t>(member.bytes, 1U << 20U));
  uLong crc = 0;
  for (std::uint64_t done = 0; done < member.bytes; done += block.size()) {
    block.resize(std::min<std::uint64_t>(block.size(), member.bytes - done));
    file.read_at(member.data + done, block.data(), block.size());
    crc = crc32_z(crc, as_zlib(block.data()), block.size());
  }
  check_crc(path, member, static_cast<std::uint32_t>(crc));
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> bytes, bool deflate) {
  ZipMember member{name, to_.offset(), 0, bytes.size(), bytes.size(), crc32_of(bytes), deflate};
  std::vector<std::byte> packed;
  if (deflate) {
    packed = deflated(bytes);
    member.packed_bytes = packed.size();
    bytes = packed;
  }
  const std::string header = local_header(member);
  to_.write(header.data(), header.size());
  to_.write(bytes.data(), bytes.size());
  members_.push_back(std::move(member));
}

void ZipWriter::finish() {
  const std::uint64_t offset = to_.offset();
  for (const ZipMember& member : members_) {
    const std::string entry = directory_entry(member);
    to_.write(entry.data(), entry.size());
  }
  const std::uint64_t end = to_.offset();
  const std::uint64_t count = members_.size();
  std::string text;
  if (count >= zip::kCountIn64 || is_large(offset) || is_large(end - offset)) {
    append(text, zip::kEndOfDirectory64);
    append(text, zip::kEnd64Bytes - 12);  // what follows
    append(text, {kVersion, kVersion, 0, 0, 0, 0});
    for (const std::uint64_t value : {count, count, end - offset, offset}) append(text, value);
    append(text, zip::kLocator64);
    append(text, std::uint32_t{0});
    append(text, end);
    append(text, std::uint32_t{1});
  }
  const auto short_count = static_cast<std::uint16_t>(std::min<std::uint64_t>(count, zip::kCountIn64));
  append(text, zip::kEndOfDirectory);
  append(text, {0, 0, short_count, short_count});
  append(text, clipped(end - offset));
  append(text, clipped(offset));
  append(text, std::uint16_t{0});
  to_.write(text.data(), text.size());
}

}  // namespace tutti::detail
