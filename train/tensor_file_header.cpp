// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/tensor_file_header.h>

#include <tutti/backend/error.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>

namespace tutti::detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMetadataKey = "__metadata__";
constexpr std::pair<DType, std::string_view> kDTypeNames[] = {
    {DType::f32, "F32"},   {DType::f64, "F64"}, {DType::i32, "I32"}, {DType::i64, "I64"}, {DType::boolean, "BOOL"},
    {DType::bf16, "BF16"}, {DType::f16, "F16"}, {DType::i8, "I8"},   {DType::u8, "U8"}};

std::string_view name_of(DType dtype) {
  for (const auto& [known, name] : kDTypeNames)
    if (known == dtype) return name;
  raise<DTypeError>("[tensor file] {} cannot be written", to_string(dtype));
}

DType parse_dtype(const std::string& path, const std::string& tensor, const std::string& text) {
  for (const auto& [dtype, name] : kDTypeNames)
    if (name == text) return dtype;
  raise<DataError>("[tensor file] {}: \"{}\" is of unknown type \"{}\"", path, tensor, text);
}

/// Bytes of an array of this shape; refuses negative lengths and products that overflow.
std::uint64_t bytes_of(const std::string& path, const std::string& tensor, const Shape& shape, DType dtype) {
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t length : shape) {
    std::uint64_t product = 0;
    if (length < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(length), &product) ||
        product > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      raise<DataError>("[tensor file] {}: \"{}\" has the impossible shape {}", path, tensor, to_string(shape));
    bytes = product;
  }
  return bytes;
}

struct PlacedEntry {
  TensorFileHeader::Entry entry;
  std::uint64_t begin = 0;
};

/// A whole number that is not negative. JSON's 1.0 and -1 would otherwise be converted without a word.
std::uint64_t whole_number(const std::string& path, const std::string& tensor, const Json& value) {
  if (!value.is_number_unsigned())
    raise<DataError>("[tensor file] {}: \"{}\" has {} where a whole number belongs", path, tensor, value.dump());
  return value.get<std::uint64_t>();
}

PlacedEntry parse_entry(const std::string& path, const std::string& name, const Json& value) {
  PlacedEntry placed;
  placed.entry.name = name;
  placed.entry.dtype = parse_dtype(path, name, value.at("dtype").get<std::string>());
  for (const Json& length : value.at("shape")) {
    const std::uint64_t whole = whole_number(path, name, length);
    placed.entry.shape.push_back(static_cast<std::int64_t>(whole));
  }
  placed.entry.bytes = bytes_of(path, name, placed.entry.shape, placed.entry.dtype);
  const auto& offsets = value.at("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2)
    raise<DataError>("[tensor file] {}: the data_offsets of \"{}\" are not two numbers", path, name);
  placed.begin = whole_number(path, name, offsets[0]);
  const std::uint64_t end = whole_number(path, name, offsets[1]);
  if (end < placed.begin || end - placed.begin != placed.entry.bytes)
    raise<DataError>("[tensor file] {}: \"{}\" takes {} bytes, but its data_offsets are {} to {}", path, name,
                     placed.entry.bytes, placed.begin, end);
  return placed;
}

void sort_without_holes(const std::string& path, std::vector<PlacedEntry>& placed) {
  std::stable_sort(placed.begin(), placed.end(), [](const PlacedEntry& a, const PlacedEntry& b) {
    return std::pair(a.begin, a.entry.bytes) < std::pair(b.begin, b.entry.bytes);
  });
  std::uint64_t expected = 0;
  for (const auto& [entry, begin] : placed) {
    if (begin != expected)
      raise<DataError>("[tensor file] {}: \"{}\" begins at data offset {}, expected {}", path, entry.name, begin,
                       expected);
    expected += entry.bytes;
  }
}

TensorFileHeader header_from(const std::string& path, const Json& json) {
  TensorFileHeader header;
  std::vector<PlacedEntry> placed;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadataKey)
      header.metadata = value.get<std::map<std::string, std::string>>();
    else
      placed.push_back(parse_entry(path, name, value));
  }
  sort_without_holes(path, placed);
  for (PlacedEntry& one : placed) header.entries.push_back(std::move(one.entry));
  if (const auto found = header.metadata.find(kChecksumKey); found != header.metadata.end()) {
    header.checksum = found->second;
    header.metadata.erase(found);
  }
  return header;
}

}  // namespace

std::string to_text(const std::string& path, const TensorFileHeader& header) try {
  Json json;
  Json& metadata = json[kMetadataKey];
  metadata[kChecksumKey] = header.checksum;
  for (const auto& [key, value] : header.metadata) metadata[key] = value;
  std::uint64_t offset = 0;
  for (const TensorFileHeader::Entry& entry : header.entries) {
    Json& tensor = json[entry.name];
    tensor["dtype"] = name_of(entry.dtype);
    tensor["shape"] = Json::array();
    for (const std::int64_t length : entry.shape) tensor["shape"].push_back(length);
    tensor["data_offsets"] = {offset, offset + entry.bytes};
    offset += entry.bytes;
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
} catch (const Json::exception& error) {
  raise<DataError>("[tensor file] {}: a name or text cannot be written: {}", path, error.what());
}

TensorFileHeader parse_header(const std::string& path, const std::string& text) {
  try {
    const Json json = Json::parse(text);
    if (!json.is_object()) raise<DataError>("[tensor file] {}: the header is not a JSON object", path);
    return header_from(path, json);
  } catch (const Json::parse_error& error) {
    raise<DataError>("[tensor file] {}: the header is not JSON at offset {}", path,
                     kLengthBytes + error.byte - 1);  // byte counts from 1
  } catch (const Json::exception& error) {
    raise<DataError>("[tensor file] {}: the header is malformed: {}", path, error.what());
  }
}

std::size_t checksum_position(const std::string& text) {
  // Inside of a JSON string the quotes would be escaped: only the key itself matches.
  const std::string key = std::string("\"") + kChecksumKey + "\":\"";
  const std::size_t found = text.find(key);
  if (found == std::string::npos || found + key.size() + std::strlen(kNoChecksum) > text.size())
    return std::string::npos;
  return found + key.size();
}

}  // namespace tutti::detail
