// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tutti {

/// How far a run has come: what it has completed.
struct CheckpointProgress {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t window = 0;

  bool operator==(const CheckpointProgress&) const = default;
};

/// Contents of manifest.json, about the folder that it is in.
struct CheckpointManifest {
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
    std::string crc32;
  };
  struct Part {
    std::string name;
    std::string text;
    std::set<std::string> left_out = {};
  };

  CheckpointProgress progress;
  std::vector<File> files;
  std::vector<Part> parts;
};

inline constexpr std::size_t kMaxCheckpointFiles = 1024;  ///< each has a thread while it is read or written

/// JSON, with a checksum over all that follows it. Throws DataError for texts that are not UTF-8.
std::string manifest_text(const CheckpointManifest&);
/// Throws DataError naming `path` for what is malformed, damaged, of another version, or names files elsewhere.
CheckpointManifest parse_manifest(const std::string& path, const std::string& text);

}  // namespace tutti
