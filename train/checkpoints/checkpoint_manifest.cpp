// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/checkpoint_manifest.h>

#include <tutti/backend/raise.h>
#include <tutti/train/checkpoints/crc32.h>
#include <tutti/train/checkpoints/json_text.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string_view>
#include <utility>

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kManifestVersion = 1;
constexpr std::string_view kManifestBegin =
    "{\"crc32\": \"";  // eight digits follow, then what they are the checksum of
constexpr std::string_view kWriter = "Tutti";
constexpr std::size_t kChecksumDigits = 8;

std::string crc32_of(std::string_view text) {
  Crc32 checksum;
  checksum.add(text.data(), text.size());
  return checksum.text();
}

std::int64_t count(const Json& value) {
  if (!value.is_number_unsigned()) raise<DataError>("there is no count where one belongs");
  const auto number = value.get<std::uint64_t>();
  if (number > static_cast<std::uint64_t>(INT64_MAX)) raise<DataError>("{} is too large for a count", number);
  return static_cast<std::int64_t>(number);
}

/// Only files that lie in the checkpoint's own folder.
std::string file_name(const Json& value) {
  auto name = value.get<std::string>();
  if (name.empty() || name.starts_with('.') || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos)
    raise<DataError>("\"{}\" is no name for its file", name);
  return name;
}

CheckpointManifest from_json(const Json& json) {
  if (const std::int64_t version = count(json.at("format")); version != kManifestVersion)
    raise<DataError>("it is of version {}, this program reads version {}", version, kManifestVersion);
  CheckpointManifest manifest;
  manifest.progress = {count(json.at("step")), count(json.at("epoch")), count(json.at("window"))};
  for (const Json& file : json.at("files"))
    manifest.files.push_back({file_name(file.at("name")), static_cast<std::uint64_t>(count(file.at("bytes"))),
                              file.at("crc32").get<std::string>()});
  if (manifest.files.size() > kMaxCheckpointFiles) raise<DataError>("it lists {} files", manifest.files.size());
  std::set<std::string> names;
  for (const Json& part : json.at("parts")) {
    manifest.parts.push_back({part.at("name").get<std::string>(), part.at("text").get<std::string>(),
                              part.at("left_out").get<std::set<std::string>>()});
    if (!names.insert(manifest.parts.back().name).second)
      raise<DataError>("it has two parts \"{}\"", manifest.parts.back().name);
  }
  return manifest;
}

}  // namespace

std::string manifest_text(const CheckpointManifest& manifest) try {
  Json files = Json::array();
  for (const auto& [name, bytes, crc32] : manifest.files)
    files.push_back({{"name", name}, {"bytes", bytes}, {"crc32", crc32}});
  Json parts = Json::array();
  for (const auto& [name, text, left_out] : manifest.parts)
    parts.push_back({{"name", name}, {"text", text}, {"left_out", left_out}});
  const Json json = {
      {"format", kManifestVersion},         {"step", manifest.progress.step}, {"epoch", manifest.progress.epoch},
      {"window", manifest.progress.window}, {"written_by", kWriter},          {"files", std::move(files)},
      {"parts", std::move(parts)}};
  // Without the opening brace and its line's end.
  const std::string rest = "\",\n" + write_json(json, 1).substr(2) + "\n";
  return std::string(kManifestBegin) + crc32_of(rest) + rest;
} catch (const Json::exception& error) {
  raise<DataError>("[checkpoint] a part's name or text cannot be written: {}", error.what());
}

CheckpointManifest parse_manifest(const std::string& path, const std::string& text) try {
  if (!text.starts_with(kManifestBegin) || text.size() < kManifestBegin.size() + kChecksumDigits)
    raise<DataError>("it does not begin with a checksum");
  const std::string_view expected = std::string_view(text).substr(kManifestBegin.size(), kChecksumDigits);
  const std::string actual = crc32_of(std::string_view(text).substr(kManifestBegin.size() + kChecksumDigits));
  if (actual != expected) raise<DataError>("its checksum is {}, but it says {}", actual, expected);
  return from_json(parse_json<Json>(text));
} catch (const DataError& error) {
  raise<DataError>("[checkpoint] {} is damaged: {}", path, error.what());
} catch (const Json::exception& error) {
  raise<DataError>("[checkpoint] {} is malformed: {}", path, error.what());
}

}  // namespace tutti
