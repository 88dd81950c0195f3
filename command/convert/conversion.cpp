// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/convert/conversion.h>

#include <tutti/backend/progress.h>
#include <tutti/backend/raise.h>
#include <tutti/exchange/npz.h>
#include <tutti/exchange/safetensors.h>

#include <chrono>
#include <filesystem>
#include <system_error>

namespace tutti::conversion {

namespace {

enum class Format : std::uint8_t { safetensors, npz };

Format format_of(const std::string& path) {
  if (path.ends_with(".safetensors")) return Format::safetensors;
  if (path.ends_with(".npz")) return Format::npz;
  raise("[convert] {}: its name ends neither in .safetensors nor in .npz, which tell the format", path);
}

TensorFile read(const std::string& path, Format format) {
  if (format == Format::npz) return {.arrays = read_npz(path), .metadata = {}};
  std::vector<std::string> unknown;
  TensorFile file = read_safetensors(path, {.skip_unknown_types = true, .skipped = &unknown});
  if (!unknown.empty())
    raise("[convert] {}: of types that no array has here are \"{}\"; nothing is written", path,
          fmt::join(unknown, "\", \""));
  return file;
}

/// Makes of the file what .npz can hold.
void fit_to_npz(TensorFile& file, std::vector<std::string>& notes) {
  for (auto& [name, array] : file.arrays) {
    if (array.dtype() != DType::bf16) continue;
    array = array.cast(DType::f32);
    notes.push_back(fmt::format("\"{}\" is bf16, which NumPy lacks: it becomes f32, with the same values", name));
  }
  for (const auto& [key, text] : file.metadata)
    notes.push_back(fmt::format("the text \"{}\" of its metadata is left out: .npz has none", key));
  file.metadata.clear();
}

}  // namespace

Conversion convert_weights(const std::string& from, const std::string& to, Existing existing) {
  const Format source = format_of(from);
  const Format target = format_of(to);
  if (source == target) raise("[convert] {} and {} are of one format: copy the file", from, to);
  std::error_code ignored;
  if (existing == Existing::refuse && std::filesystem::exists(std::filesystem::symlink_status(to, ignored)))
    raise("[convert] {} is there already: --force replaces it", to);
  TensorFile file = read(from, source);
  Conversion done;
  if (target == Format::npz) fit_to_npz(file, done.notes);
  for (const auto& [name, array] : file.arrays) done.bytes += array.bytes();
  done.arrays = file.arrays.size();
  Progress progress(static_cast<std::int64_t>(done.arrays),
                    {.label = to, .unit = "MB", .step = "array", .quiet = std::chrono::seconds(1)});
  std::int64_t arrays = 0;
  std::uint64_t bytes = 0;
  const auto written = [&](const Array& array) {
    bytes += array.bytes();
    progress.update({.step = ++arrays, .examples = static_cast<std::int64_t>(bytes / 1'000'000)});
  };
  if (target == Format::npz)
    write_npz(to, file.arrays, {.written = written});
  else
    write_safetensors(to, file, {.written = written});
  return done;
}

}  // namespace tutti::conversion
