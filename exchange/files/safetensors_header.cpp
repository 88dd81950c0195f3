// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/files/safetensors_header.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/memory/foreign_types.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>

namespace tutti::detail {
namespace {

using Json = nlohmann::ordered_json;
using Entry = SafetensorsHeader::Entry;

constexpr const char* kMetadataKey = "__metadata__";
constexpr int kMaxDepth = 4;  // of nested values: header, tensor, list

/// Reads one header. Its complaints hold the offset in the file of what they are about.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, const std::string& text) : path_(path), text_(text) {}

  SafetensorsHeader parse() {
    const Json json = Json::parse(text_, [this](int depth, Json::parse_event_t event, Json& value) {
      check_structure(depth, event, value);
      return true;
    });
    if (!json.is_object())
      raise<DataError>("[safetensors] {}: the header at offset {} is not a JSON object", path_, kLengthBytes);
    SafetensorsHeader header;
    for (const auto& [name, value] : json.items()) {
      if (name == kMetadataKey)
        header.metadata = value.get<std::map<std::string, std::string>>();
      else
        header.entries.push_back(entry(name, value));
    }
    sort_without_holes(header.entries);
    return header;
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(const std::string& name, fmt::format_string<Args...> format, Args&&... args) const {
    const std::size_t found = text_.find(Json(name).dump());
    raise<DataError>("[safetensors] {}: \"{}\" at offset {} {}", path_, name,
                     kLengthBytes + (found == std::string::npos ? 0 : found),
                     fmt::format(format, std::forward<Args>(args)...));
  }

  /// Keys that stand twice would overwrite each other, and deep nesting would overflow the stack later.
  void check_structure(int depth, Json::parse_event_t event, const Json& value) {
    if (depth > kMaxDepth)
      raise<DataError>("[safetensors] {}: the header at offset {} is nested too deeply", path_, kLengthBytes);
    if (event == Json::parse_event_t::object_start) keys_[static_cast<std::size_t>(depth)].clear();
    if (event != Json::parse_event_t::key) return;
    const auto& key = value.get_ref<const std::string&>();
    if (!keys_[static_cast<std::size_t>(depth - 1)].insert(key).second) fail(key, "stands twice");
  }

  /// A whole number that is not negative. JSON's 1.0 and -1 would otherwise be converted without a word.
  std::uint64_t whole_number(const std::string& name, const Json& value) const {
    if (!value.is_number_unsigned()) fail(name, "has {} where a whole number belongs", value.dump());
    return value.get<std::uint64_t>();
  }

  const Json& member(const std::string& name, const Json& value, const char* key) const {
    if (!value.is_object() || !value.contains(key)) fail(name, "is malformed: no {}", key);
    return value.at(key);
  }

  Entry entry(const std::string& name, const Json& value) const {
    Entry entry;
    entry.name = name;
    const Json& type = member(name, value, "dtype");
    if (!type.is_string()) fail(name, "is malformed: its dtype is {}", type.dump());
    entry.type = type.get<std::string>();
    entry.dtype = dtype_of_safetensors(entry.type);
    for (const Json& length : member(name, value, "shape"))
      entry.shape.push_back(static_cast<std::int64_t>(whole_number(name, length)));
    const Json& offsets = member(name, value, "data_offsets");
    if (!offsets.is_array() || offsets.size() != 2) fail(name, "has data_offsets that are not two numbers");
    entry.begin = whole_number(name, offsets[0]);
    const std::uint64_t end = whole_number(name, offsets[1]);
    if (end < entry.begin) fail(name, "has data_offsets {} to {}", entry.begin, end);
    entry.bytes = end - entry.begin;
    check_bytes(entry);
    return entry;
  }

  /// The shape must be one that a machine can have, and take just the bytes that are there.
  void check_bytes(const Entry& entry) const {
    std::uint64_t bytes = entry.dtype ? size_of(*entry.dtype) : 1;
    for (const std::int64_t length : entry.shape)
      if (length < 0 ||
          __builtin_mul_overflow(bytes, std::max<std::uint64_t>(static_cast<std::uint64_t>(length), 1), &bytes) ||
          bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        fail(entry.name, "has the impossible shape {}", to_string(entry.shape));
    if (element_count(entry.shape) == 0) bytes = 0;
    if (entry.dtype && bytes != entry.bytes)
      fail(entry.name, "takes {} bytes, but its data_offsets are {} to {}", bytes, entry.begin,
           entry.begin + entry.bytes);
  }

  void sort_without_holes(std::vector<Entry>& entries) const {
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
    });
    std::uint64_t expected = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != expected) fail(entry.name, "begins at data offset {}, expected {}", entry.begin, expected);
      expected = entry.begin + entry.bytes;  // the end that stands in the header
    }
  }

  const std::string& path_;
  const std::string& text_;
  std::set<std::string> keys_[kMaxDepth + 1];
};

}  // namespace

SafetensorsHeader header_of(const std::string& path, const TensorFile& file) {
  SafetensorsHeader header;
  header.metadata = file.metadata;
  std::set<std::string_view> names;
  std::uint64_t begin = 0;
  for (const auto& [name, array] : file.arrays) {
    if (!array.defined()) raise<DataError>("[safetensors] {}: \"{}\" is undefined", path, name);
    if (name == kMetadataKey || !names.insert(name).second)
      raise<DataError>("[safetensors] {}: the name \"{}\" is reserved or given twice", path, name);
    const std::string_view type = foreign_type(array.dtype()).safetensors;
    header.entries.push_back({name, std::string(type), array.dtype(), array.shape(), begin, array.bytes()});
    begin += array.bytes();
  }
  return header;
}

std::string to_text(const std::string& path, const SafetensorsHeader& header) try {
  Json json = Json::object();
  for (const auto& [key, value] : header.metadata) json[kMetadataKey][key] = value;
  for (const Entry& entry : header.entries) {
    Json& tensor = json[entry.name];
    tensor["dtype"] = entry.type;
    tensor["shape"] = Json::array();
    for (const std::int64_t length : entry.shape) tensor["shape"].push_back(length);
    tensor["data_offsets"] = {entry.begin, entry.begin + entry.bytes};
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
} catch (const Json::exception& error) {
  raise<DataError>("[safetensors] {}: a name or text cannot be written: {}", path, error.what());
}

SafetensorsHeader parse_header(const std::string& path, const std::string& text) try {
  return HeaderParser(path, text).parse();
} catch (const Json::parse_error& error) {
  raise<DataError>("[safetensors] {}: the header is not JSON at offset {}: {}", path, kLengthBytes + error.byte - 1,
                   error.what());  // byte counts from 1
} catch (const Json::exception& error) {
  raise<DataError>("[safetensors] {}: the header at offset {} is malformed: {}", path, kLengthBytes, error.what());
}

std::string read_header_text(FileDescriptor& file, const std::string& path, std::uint64_t file_bytes) {
  std::uint64_t length = 0;
  if (file_bytes < sizeof length)
    raise<DataError>("[safetensors] {} is truncated: its length ends at offset {}", path, file_bytes);
  file.read(&length, sizeof length);
  if (length > std::min(file_bytes - sizeof length, kMaxHeaderBytes))
    raise<DataError>("[safetensors] {} is truncated or malformed: at offset 0, a header of {} bytes in a file of {}",
                     path, length, file_bytes);
  std::string text(length, '\0');
  file.read(text.data(), text.size());
  return text;
}

void check_size(const SafetensorsHeader& header, const std::string& path, std::uint64_t offset,
                std::uint64_t file_bytes) {
  for (const Entry& entry : header.entries) {
    if (entry.bytes > file_bytes - offset)
      raise<DataError>("[safetensors] {} is truncated: \"{}\" at offset {} needs {} bytes, the file ends at {}", path,
                       entry.name, offset, entry.bytes, file_bytes);
    offset += entry.bytes;
  }
  if (offset != file_bytes)
    raise<DataError>("[safetensors] {}: {} unexpected bytes at offset {}", path, file_bytes - offset, offset);
}

}  // namespace tutti::detail
