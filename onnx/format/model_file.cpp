// SPDX-License-Identifier: Apache-2.0
// Messages and fields: https://github.com/onnx/onnx/blob/main/docs/IR.md, and the numbers in onnx.proto there.
#include <tutti/onnx/format/model_file.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/files/file_arrays.h>
#include <tutti/onnx/format/wire_reader.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <system_error>

namespace tutti::onnx {

namespace {

namespace fs = std::filesystem;

/// A file, and those beside it that hold its weights.
class Files {
 public:
  Files(const std::string& path, Device device) : path_(path), device_(device), arrays_(path, device, true) {
    bytes_ = arrays_.file_bytes();
    if (bytes_ == 0) raise<DataError>("[onnx] {} is empty", path);
    mapping_ = arrays_.file().map_privately(bytes_);
  }

  WireReader reader() const {
    const std::span<const std::byte> all(mapping_.get(), bytes_);
    return {path_, all, all};
  }
  Device device() const noexcept { return device_; }
  const std::string& path() const noexcept { return path_; }
  Array array(std::uint64_t offset, DType dtype, const Shape& shape) { return arrays_.array(offset, dtype, shape); }

  bool has(const std::string& name) const {
    std::error_code error;
    return fs::is_regular_file(fs::path(path_).parent_path() / name, error);
  }
  FileArrays& beside(const std::string& name) {
    auto& found = beside_[name];
    if (!found) found = std::make_unique<FileArrays>((fs::path(path_).parent_path() / name).string(), device_, true);
    return *found;
  }

 private:
  std::string path_;
  Device device_;
  FileArrays arrays_;
  std::uint64_t bytes_ = 0;
  std::shared_ptr<std::byte> mapping_;
  std::map<std::string, std::unique_ptr<FileArrays>> beside_;
};

/// Fields of a tensor before it is made.
struct TensorFields {
  std::string name;
  std::vector<std::int64_t> lengths;
  std::int64_t type = 0;
  std::optional<std::span<const std::byte>> raw;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int64_t> integers;
  std::map<std::string, std::string> elsewhere;
  bool is_elsewhere = false;
};

std::uint64_t whole_number(const WireReader& at, const std::map<std::string, std::string>& from, const char* key) {
  const auto found = from.find(key);
  if (found == from.end()) return 0;
  std::uint64_t value = 0;
  const char* const end = found->second.data() + found->second.size();
  const auto [stopped, error] = std::from_chars(found->second.data(), end, value);
  if (stopped != end || error != std::errc())
    at.fail(fmt::format("the {} '{}' of weights in another file is no number", key, found->second));
  return value;
}

Array from_elsewhere(const WireReader& at, Files& files, const TensorFields& fields, DType dtype, const Shape& shape) {
  const auto location = fields.elsewhere.find("location");
  if (location == fields.elsewhere.end()) at.fail(fmt::format("the file of \"{}\" is not named", fields.name));
  // Nothing but what lies beside the model, whoever made it.
  const fs::path place(location->second);
  if (place.is_absolute() || place.empty() || std::ranges::find(place, fs::path("..")) != place.end())
    at.fail(fmt::format("\"{}\" is in {}, which does not lie beside the model", fields.name, location->second));
  if (!files.has(location->second))
    at.fail(fmt::format("\"{}\" is in {}, which is not there beside the model", fields.name, location->second));
  FileArrays& arrays = files.beside(location->second);
  const std::uint64_t offset = whole_number(at, fields.elsewhere, "offset");
  const std::uint64_t bytes = static_cast<std::uint64_t>(element_count(shape)) * size_of(dtype);
  const std::uint64_t told = whole_number(at, fields.elsewhere, "length");
  if (told != 0 && told != bytes)
    at.fail(fmt::format("\"{}\" has {} bytes in {}, and its shape asks for {}", fields.name, told, location->second,
                        bytes));
  if (offset > arrays.file_bytes() || bytes > arrays.file_bytes() - offset)
    at.fail(fmt::format("{} ends before \"{}\" does", location->second, fields.name));
  return arrays.array(offset, dtype, shape);
}

std::pair<std::string, std::string> read_entry(WireReader entry) {
  std::pair<std::string, std::string> read;
  while (entry.next()) {
    if (entry.field() == 1) read.first = entry.text();
    if (entry.field() == 2) read.second = entry.text();
  }
  return read;
}

TensorFields fields_of(WireReader& reader) {
  TensorFields fields;
  while (reader.next()) {
    switch (reader.field()) {
      case 1: reader.integers(fields.lengths); break;
      case 2: fields.type = reader.integer(); break;
      case 4: reader.numbers(fields.floats); break;
      case 5:
      case 7:
      case 11: reader.integers(fields.integers); break;
      case 8: fields.name = reader.text(); break;
      case 9: fields.raw = reader.bytes(); break;
      case 10: reader.numbers(fields.doubles); break;
      case 13: {
        auto [key, value] = read_entry(reader.message());
        fields.elsewhere[std::move(key)] = std::move(value);
        break;
      }
      case 14: fields.is_elsewhere = reader.integer() == 1; break;
      default: break;
    }
  }
  return fields;
}

/// Elements that stand in fields of numbers: 16-bit ones are their bits.
Array from_numbers(const WireReader& at, const TensorFields& fields, DType dtype, const Shape& shape, Device device) {
  const auto count = static_cast<std::size_t>(element_count(shape));
  const auto check = [&](std::size_t found) {
    if (found != count)
      at.fail(fmt::format("\"{}\" has {} elements, and its shape {} asks for {}", fields.name, found, to_string(shape),
                          count));
  };
  if (dtype == DType::f32) {
    check(fields.floats.size());
    return Array::from(fields.floats, shape, device);
  }
  if (dtype == DType::f64) {
    check(fields.doubles.size());
    return Array::from(fields.doubles, shape, device);
  }
  check(fields.integers.size());
  if (dtype == DType::bf16 || dtype == DType::f16) {
    std::vector<std::uint16_t> bits;
    for (const std::int64_t each : fields.integers) bits.push_back(static_cast<std::uint16_t>(each));
    return array_of_bytes(at.path(), 0, std::as_bytes(std::span(bits)), dtype, shape, device);
  }
  return Array::from(fields.integers, shape, cpu()).cast(dtype).to(device);
}

std::pair<std::string, Array> read_tensor(WireReader reader, Files& files) {
  const TensorFields fields = fields_of(reader);
  const std::optional<DType> dtype = dtype_of(fields.type);
  if (!dtype)
    reader.fail(fmt::format("\"{}\" is of ONNX's type {}, which no array here has", fields.name, fields.type));
  Shape shape;
  std::uint64_t count = 1;
  for (const std::int64_t length : fields.lengths) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 48U;
    if (length < 0 || (length > 0 && count > kMost / static_cast<std::uint64_t>(length)))
      reader.fail(fmt::format("\"{}\" has a length {}", fields.name, length));
    if (length > 0) count *= static_cast<std::uint64_t>(length);
    shape.push_back(length);
  }
  if (fields.is_elsewhere) return {fields.name, from_elsewhere(reader, files, fields, *dtype, shape)};
  if (!fields.raw) return {fields.name, from_numbers(reader, fields, *dtype, shape, files.device())};
  if (fields.raw->size() != static_cast<std::size_t>(element_count(shape)) * size_of(*dtype))
    reader.fail(fmt::format("\"{}\" has {} bytes, and its shape {} asks for {}", fields.name, fields.raw->size(),
                            to_string(shape), static_cast<std::size_t>(element_count(shape)) * size_of(*dtype)));
  return {fields.name, files.array(reader.offset_of(*fields.raw), *dtype, shape)};
}

Attribute read_attribute(WireReader reader, Files& files) {
  Attribute attribute;
  std::vector<float> numbers;
  std::int64_t type = 0;
  while (reader.next()) {
    switch (reader.field()) {
      case 1: attribute.name = reader.text(); break;
      case 2: attribute.number = static_cast<double>(reader.number()); break;
      case 3: attribute.integer = reader.integer(); break;
      case 4: attribute.text = reader.text(); break;
      case 5: attribute.array = read_tensor(reader.message(), files).second; break;
      case 7: reader.numbers(numbers); break;
      case 8: reader.integers(attribute.integers); break;
      case 6:
      case 11: attribute.is_graph = true; break;
      case 20: type = reader.integer(); break;
      default: break;
    }
  }
  // Writers may leave out what is 0.
  if (type == 1 && !attribute.number) attribute.number = 0.0;
  if (type == 2 && !attribute.integer) attribute.integer = 0;
  if (type == 3 && !attribute.text) attribute.text = "";
  attribute.numbers.assign(numbers.begin(), numbers.end());
  return attribute;
}

Node read_node(WireReader reader, Files& files) {
  Node node;
  std::string domain;
  while (reader.next()) {
    switch (reader.field()) {
      case 1: node.inputs.emplace_back(reader.text()); break;
      case 2: node.outputs.emplace_back(reader.text()); break;
      case 3: node.name = reader.text(); break;
      case 4: node.operation = reader.text(); break;
      case 5: node.attributes.push_back(read_attribute(reader.message(), files)); break;
      case 7: domain = reader.text(); break;
      default: break;
    }
  }
  if (!domain.empty() && domain != "ai.onnx") node.operation = domain + "." + node.operation;
  return node;
}

std::vector<std::string> read_shape(WireReader reader) {
  std::vector<std::string> lengths;
  while (reader.next()) {
    if (reader.field() != 1) continue;
    WireReader dimension = reader.message();
    std::string length = "?";
    while (dimension.next()) {
      if (dimension.field() == 1) length = std::to_string(dimension.integer());
      if (dimension.field() == 2) length = dimension.text();
    }
    const bool is_unknown = length.empty() || length.front() == '-' || length == "None";
    lengths.push_back(is_unknown ? "?" : length);
  }
  return lengths;
}

ValueInfo read_value(WireReader reader) {
  ValueInfo value;
  while (reader.next()) {
    if (reader.field() == 1) value.name = reader.text();
    if (reader.field() != 2) continue;
    WireReader type = reader.message();
    while (type.next()) {
      if (type.field() != 1) continue;
      WireReader tensor = type.message();
      while (tensor.next()) {
        if (tensor.field() == 1) value.dtype = dtype_of(tensor.integer());
        if (tensor.field() == 2) value.shape = read_shape(tensor.message());
      }
    }
  }
  return value;
}

void read_graph(WireReader reader, Files& files, ModelFile& model) {
  while (reader.next()) {
    switch (reader.field()) {
      case 1: model.nodes.push_back(read_node(reader.message(), files)); break;
      case 5: model.initializers.push_back(read_tensor(reader.message(), files)); break;
      case 11: model.inputs.push_back(read_value(reader.message())); break;
      case 12: model.outputs.push_back(read_value(reader.message())); break;
      case 15: reader.fail("it has sparse weights, which are not read"); break;
      default: break;
    }
  }
  // Before version 4 of the format initializers had to be inputs, too.
  std::set<std::string> given;
  for (const auto& [name, array] : model.initializers) given.insert(name);
  std::erase_if(model.inputs, [&](const ValueInfo& input) { return given.contains(input.name); });
}

}  // namespace

namespace {

constexpr std::pair<std::int64_t, DType> kTypes[] = {{1, DType::f32},  {2, DType::u8},   {3, DType::i8},
                                                     {6, DType::i32},  {7, DType::i64},  {9, DType::boolean},
                                                     {10, DType::f16}, {11, DType::f64}, {16, DType::bf16}};

}  // namespace

std::optional<DType> dtype_of(std::int64_t number) {
  const auto* const found = std::ranges::find(kTypes, number, &std::pair<std::int64_t, DType>::first);
  return found == std::end(kTypes) ? std::nullopt : std::optional(found->second);
}

std::int64_t number_of(DType dtype) {
  return std::ranges::find(kTypes, dtype, &std::pair<std::int64_t, DType>::second)->first;
}

ModelFile read_model(const std::string& path, Device device) {
  Files files(path, device);
  ModelFile model;
  WireReader reader = files.reader();
  bool has_graph = false;
  while (reader.next()) {
    if (reader.field() == 7) {
      read_graph(reader.message(), files, model);
      has_graph = true;
    } else if (reader.field() == 8) {
      WireReader set = reader.message();
      std::string domain;
      std::int64_t version = 0;
      while (set.next()) {
        if (set.field() == 1) domain = set.text();
        if (set.field() == 2) version = set.integer();
      }
      if (domain.empty() || domain == "ai.onnx") model.opset = version;
    } else if (reader.field() == 14) {
      const auto [key, value] = read_entry(reader.message());
      std::istringstream lines(key == kBuffersKey ? value : "");
      for (std::string name; std::getline(lines, name);) model.buffers.insert(name);
    } else if (reader.field() == 25) {
      raise<DataError>("[onnx] {}: it has functions of its own, which are not read: export it with them inlined", path);
    }
  }
  if (!has_graph) raise<DataError>("[onnx] {}: it has no graph: is it a model of ONNX?", path);
  return model;
}

Array read_tensor(const std::string& path, Device device) {
  Files files(path, device);
  return read_tensor(files.reader(), files).second;
}

}  // namespace tutti::onnx
