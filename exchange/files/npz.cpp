// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/npz.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/files/npy_layout.h>
#include <tutti/exchange/files/utf8.h>
#include <tutti/exchange/files/zip_archive.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

namespace tutti {
namespace {

constexpr std::string_view kSuffix = ".npy";

void check_unpacked_bytes(const std::vector<detail::ZipMember>& members, const FileArrays& from,
                          const NpzOptions& options) {
  constexpr std::uint64_t kAlways = std::uint64_t{1} << 30U;
  const std::uint64_t most =
      options.most_unpacked_bytes > 0 ? options.most_unpacked_bytes : std::max(kAlways, 100 * from.file_bytes());
  std::uint64_t total = 0;  // cannot overflow: a member is at most 1032 times its part of the file
  for (const detail::ZipMember& member : members) {
    if (member.is_deflated) total += member.bytes;
    if (total > most)
      raise<DataError>(
          "[npz] {} unpacks to {} bytes up to and with \"{}\" at offset {}, at most {} are allowed: set "
          "most_unpacked_bytes",
          from.path(), total, member.name, member.header, most);
  }
}

Array read_stored(FileArrays& from, const detail::ZipMember& member, const std::string& place) {
  detail::check_stored_zip_member(from.file(), from.path(), member);
  std::vector<std::byte> start(std::min<std::uint64_t>(member.bytes, detail::kMaxNpyHeader));
  from.file().read_at(member.data, start.data(), start.size());
  return detail::npy_array(detail::parse_npy_header(place, member.data, start, member.bytes), from, member.data);
}

Array read_deflated(FileArrays& from, const detail::ZipMember& member, const std::string& place) {
  std::vector<std::byte> bytes = detail::inflate_zip_member(from.file(), from.path(), member);
  const detail::NpyHeader header = detail::parse_npy_header(place, 0, bytes, bytes.size());
  return detail::npy_array(header, place, header.header_bytes, std::span(bytes).subspan(header.header_bytes),
                           from.device());
}

}  // namespace

NamedArrays read_npz(const std::string& path, const NpzOptions& options) {
  FileArrays from(path, options.device, options.map);
  const std::vector<detail::ZipMember> members = detail::read_zip_directory(from.file(), path, from.file_bytes());
  check_unpacked_bytes(members, from, options);
  NamedArrays arrays;
  for (const detail::ZipMember& member : members) {
    if (!member.name.ends_with(kSuffix))
      raise<DataError>("[npz] {}: \"{}\" at offset {} is no .npy file", path, member.name, member.header);
    const std::string place = fmt::format("{}, \"{}\"", path, member.name);
    arrays.emplace_back(member.name.substr(0, member.name.size() - kSuffix.size()),
                        (member.is_deflated ? read_deflated : read_stored)(from, member, place));
  }
  return arrays;
}

void write_npz(const std::string& path, const NamedArrays& arrays, const NpzWriting& writing) {
  constexpr std::size_t kLongestName = 1000;
  std::set<std::string_view> names;
  for (const auto& [name, array] : arrays)
    if (!array.defined() || name.size() > kLongestName || !detail::is_utf8(name) || !names.insert(name).second)
      raise<DataError>("[npz] {}: \"{}\" is undefined, given twice, too long or not UTF-8", path, name);
  AtomicFile target(path);
  detail::ZipWriter writer(target.file());
  for (const auto& [name, array] : arrays) {
    const std::string header = detail::npy_header_text(array.dtype(), array.shape());
    std::vector<std::byte> bytes = host_bytes(array);
    const auto* const begin = reinterpret_cast<const std::byte*>(header.data());
    bytes.insert(bytes.begin(), begin, begin + header.size());
    writer.add(name + std::string(kSuffix), bytes, writing.deflate);
    if (writing.written) writing.written(array);
  }
  writer.finish();
  target.commit();
}

}  // namespace tutti
