// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/idx.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/files/file_arrays.h>
#include <tutti/exchange/npy.h>
#include <tutti/train/data/gzip_file.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

namespace tutti {
namespace {

struct IdxType {
  DType dtype;
  std::size_t bytes;  // of an element in the file
};

std::optional<IdxType> type_of(unsigned char code) {
  switch (code) {
    case 0x08: return IdxType{DType::u8, 1};
    case 0x09: return IdxType{DType::i8, 1};
    case 0x0b: return IdxType{DType::i32, 2};  // no array has 16 bits
    case 0x0c: return IdxType{DType::i32, 4};
    case 0x0d: return IdxType{DType::f32, 4};
    case 0x0e: return IdxType{DType::f64, 8};
    default: return std::nullopt;
  }
}

void read_exactly(GzipFile& file, void* to, std::size_t bytes, const char* what) {
  if (file.read(to, bytes) != bytes)
    raise<DataError>("[idx] {} ends at offset {}, in {}", file.path(), file.offset(), what);
}

struct Header {
  IdxType type;
  Shape shape;
  std::size_t bytes = 0;  // of all elements in the file
};

Header read_header(GzipFile& file) {
  unsigned char magic[4];
  read_exactly(file, magic, sizeof magic, "the magic number");
  if (magic[0] != 0 || magic[1] != 0)
    raise<DataError>("[idx] {} is no IDX file: it does not begin with two zeros", file.path());
  const auto type = type_of(magic[2]);
  if (!type) raise<DataError>("[idx] {}: the type {:#04x} at offset 2 is unknown", file.path(), magic[2]);
  Header header{*type, {}, type->bytes};
  std::size_t extent = type->bytes;  // as if no axis were empty: strides must be possible, too
  for (int axis = 0; axis < magic[3]; ++axis) {
    unsigned char digits[4];
    read_exactly(file, digits, sizeof digits, "the lengths of the axes");
    std::uint32_t length = 0;
    for (const unsigned char digit : digits) length = length << 8U | digit;
    header.shape.push_back(length);
    header.bytes *= length;
    // In memory an element may take twice its bytes in the file.
    if (__builtin_mul_overflow(extent, std::max(std::size_t{length}, std::size_t{1}), &extent) ||
        extent > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()) / 2)
      raise<DataError>("[idx] {}: impossible shape {} at offset {}", file.path(), to_string(header.shape),
                       file.offset());
  }
  return header;
}

/// What the file delivers, up to `bytes`; the buffer grows with it.
std::vector<std::byte> read_elements(GzipFile& file, std::size_t bytes) {
  constexpr std::size_t kBlock = std::size_t{1} << 20U;
  std::vector<std::byte> elements;
  while (elements.size() < bytes) {
    const std::size_t before = elements.size();
    elements.resize(before + std::min(kBlock, bytes - before));
    read_exactly(file, elements.data() + before, elements.size() - before, "the elements");
  }
  char more = 0;
  if (file.read(&more, 1) > 0)
    raise<DataError>("[idx] {} goes on after its last element, at offset {}", file.path(), file.offset() - 1);
  return elements;
}

void reverse_elements(std::span<std::byte> bytes, std::size_t element) {
  for (std::size_t i = 0; i < bytes.size(); i += element)
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 bytes.begin() + static_cast<std::ptrdiff_t>(i + element));
}

std::vector<std::byte> widened(std::span<const std::byte> shorts) {
  std::vector<std::byte> wide(shorts.size() * 2);
  for (std::size_t i = 0; i < shorts.size(); i += 2) {
    std::int16_t value = 0;
    std::memcpy(&value, shorts.data() + i, sizeof value);
    const std::int32_t same = value;
    std::memcpy(wide.data() + 2 * i, &same, sizeof same);
  }
  return wide;
}

Examples paired(const char* reader, const std::string& inputs_path, Array inputs, const std::string& targets_path,
                Array targets) {
  if (inputs.rank() == 0 || targets.rank() == 0 || inputs.length(0) != targets.length(0))
    raise<DataError>("[{}] {} holds {}, {} holds {}: not equally many", reader, inputs_path, to_string(inputs.shape()),
                     targets_path, to_string(targets.shape()));
  return {std::move(inputs), std::move(targets)};
}

}  // namespace

Array read_idx(const std::string& path, const IdxOptions& options) {
  GzipFile file(path, options.most_unpacked_bytes);
  const Header header = read_header(file);
  const std::uint64_t begin = file.offset();
  std::vector<std::byte> elements = read_elements(file, header.bytes);
  reverse_elements(elements, header.type.bytes);
  if (header.type.bytes < size_of(header.type.dtype)) elements = widened(elements);
  return array_of_bytes(path, begin, elements, header.type.dtype, header.shape, cpu());
}

Examples read_idx_examples(const std::string& inputs, const std::string& targets, const IdxOptions& options) {
  Array labels = read_idx(targets, options);
  if (!is_integral(labels.dtype()))
    raise<DataError>("[idx] {} holds {}, no whole numbers, as labels", targets, to_string(labels.dtype()));
  return paired("idx", inputs, read_idx(inputs, options), targets, labels.cast(DType::i64));
}

Examples read_npy_examples(const std::string& inputs, const std::string& targets) {
  return paired("npy", inputs, read_npy(inputs), targets, read_npy(targets));
}

}  // namespace tutti
