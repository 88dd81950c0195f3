// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/checkpoint_files.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/files/file_descriptor.h>
#include <tutti/train/checkpoints/tensor_file.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <future>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 30U;

/// Arrays for each file, about equally many bytes: the largest first, each to the file that has least.
std::vector<TensorFile> share_out(const PartStates& parts, std::size_t writers) {
  NamedArrays all;
  for (const auto& [part, state] : parts)
    for (const auto& [name, array] : state.arrays) all.emplace_back(fmt::format("{}/{}", part, name), array);
  std::ranges::stable_sort(all, std::ranges::greater{}, [](const auto& named) { return named.second.bytes(); });
  std::vector<TensorFile> files(std::min(std::clamp<std::size_t>(writers, 1, kMaxCheckpointFiles), all.size()));
  std::vector<std::size_t> bytes(files.size());
  for (auto& named : all) {
    const std::size_t least = static_cast<std::size_t>(std::ranges::min_element(bytes) - bytes.begin());
    bytes[least] += named.second.bytes() + 1;
    files[least].arrays.push_back(std::move(named));
  }
  return files;
}

/// Runs `work(i)` for each i on a thread of its own, or on this one where the system has no more; when all have ended,
/// rethrows the first error.
template <class Work> auto in_parallel(std::size_t count, const Work& work) {
  std::vector<std::future<decltype(work(0))>> futures;
  constexpr auto kIfPossible = std::launch::async | std::launch::deferred;
  for (std::size_t i = 0; i < count; ++i) futures.push_back(std::async(kIfPossible, work, i));
  for (const auto& future : futures) future.wait();
  std::vector<decltype(work(0))> results;
  for (auto& future : futures) results.push_back(future.get());
  return results;
}

void write_text(const std::string& path, const std::string& text) {
  AtomicFile target(path);
  target.file().write(text.data(), text.size());
  target.commit();
}

std::string read_text(const std::string& path) {
  FileDescriptor from = FileDescriptor::open_for_reading(path);
  if (from.size() > kMaxManifestBytes) raise<DataError>("[checkpoint] {} is too long: {} bytes", path, from.size());
  std::string text(from.size(), '\0');
  from.read(text.data(), text.size());
  return text;
}

void write_contents(const std::string& folder, const CheckpointContents& contents, std::size_t writers) {
  CheckpointManifest manifest{contents.progress, {}, {}};
  const std::vector<TensorFile> files = share_out(contents.parts, writers);
  manifest.files = in_parallel(files.size(), [&](std::size_t i) {
    CheckpointManifest::File file{fmt::format("tensors-{}.safetensors", i), 0, {}};
    const std::string path = fmt::format("{}/{}", folder, file.name);
    file.crc32 = write_tensor_file(path, files[i]);
    file.bytes = fs::file_size(path);
    return file;
  });
  for (const auto& [name, state] : contents.parts) manifest.parts.push_back({name, state.text, state.left_out});
  write_text(fmt::format("{}/{}", folder, kManifest), manifest_text(manifest));
}

TensorFile read_listed_file(const std::string& folder, const CheckpointManifest::File& listed) {
  const std::string path = fmt::format("{}/{}", folder, listed.name);
  if (const std::uint64_t bytes = FileDescriptor::open_for_reading(path).size(); bytes != listed.bytes)
    raise<DataError>("[checkpoint] {} has {} bytes, the manifest says {}", path, bytes, listed.bytes);
  std::string checksum;
  TensorFile file = read_tensor_file(path, cpu(), &checksum);
  if (checksum != listed.crc32)
    raise<DataError>("[checkpoint] {} is of another checkpoint: its checksum is {}, the manifest says {}", path,
                     checksum, listed.crc32);
  return file;
}

}  // namespace

void write_checkpoint_folder(const std::string& path, const CheckpointContents& contents, std::size_t writers) try {
  const std::string unfinished = path + kUnfinishedSuffix;
  fs::remove_all(unfinished);
  fs::create_directories(unfinished);
  try {
    write_contents(unfinished, contents, writers);
    fs::rename(unfinished, path);
  } catch (const DataError& error) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);
    raise<DataError>("[checkpoint] {} cannot be written: {}", path, error.what());
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);
    throw;
  }
  flush_name_to_disk(path);
} catch (const fs::filesystem_error& error) {
  raise<DataError>("[checkpoint] {} cannot be written: {}", path, error.code().message());
}

CheckpointContents read_checkpoint_folder(const std::string& path) {
  const std::string manifest_path = fmt::format("{}/{}", path, kManifest);
  const CheckpointManifest manifest = parse_manifest(manifest_path, read_text(manifest_path));
  const std::vector<TensorFile> files =
      in_parallel(manifest.files.size(), [&](std::size_t i) { return read_listed_file(path, manifest.files[i]); });
  CheckpointContents contents{manifest.progress, {}};
  std::unordered_map<std::string, std::size_t> places;
  for (const auto& [name, text, left_out] : manifest.parts) {
    places.emplace(name, contents.parts.size());
    contents.parts.emplace_back(name, PartState{{}, text, left_out});
  }
  std::set<std::string> names;
  for (const TensorFile& file : files)
    for (const auto& [name, array] : file.arrays) {
      const std::size_t slash = name.find('/');
      const auto part = places.find(name.substr(0, slash));
      if (slash == std::string::npos || part == places.end() || !names.insert(name).second)
        raise<DataError>("[checkpoint] {}: the array \"{}\" is of no part, or there twice", path, name);
      contents.parts[part->second].second.arrays.emplace_back(name.substr(slash + 1), array);
    }
  return contents;
}

void remove_checkpoint_folder(const std::string& path) try {
  const std::string unfinished = path + kUnfinishedSuffix;
  fs::rename(path, unfinished);
  fs::remove_all(unfinished);
} catch (const fs::filesystem_error& error) {
  raise<DataError>("[checkpoint] {} cannot be removed: {}", path, error.code().message());
}

}  // namespace tutti
