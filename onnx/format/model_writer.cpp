// SPDX-License-Identifier: Apache-2.0
// Messages and fields: https://github.com/onnx/onnx/blob/main/docs/IR.md, and the numbers in onnx.proto there.
#include <tutti/onnx/format/model_writer.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/files/file_arrays.h>
#include <tutti/onnx/format/wire_writer.h>
#include <tutti/version.h>

#include <algorithm>
#include <cctype>

namespace tutti::onnx {

namespace {

constexpr std::int64_t kFormat = 9;
constexpr std::uint64_t kMostBytes = 0x7fffffff;  // of one message, by protobuf

WireWriter tensor_message(const std::string& name, const Array& array) {
  WireWriter message;
  for (const std::int64_t length : array.shape()) message.integer(1, length);
  message.integer(2, number_of(array.dtype()));
  if (!name.empty()) message.text(8, name);
  return message.bytes(9, host_bytes(array));
}

WireWriter attribute_message(const Attribute& attribute) {
  enum : std::int64_t { kFloat = 1, kInteger = 2, kText = 3, kTensor = 4, kIntegers = 7 };
  WireWriter message;
  message.text(1, attribute.name);
  if (attribute.number) return message.number(2, static_cast<float>(*attribute.number)).integer(20, kFloat);
  if (attribute.integer) return message.integer(3, *attribute.integer).integer(20, kInteger);
  if (attribute.text) return message.text(4, *attribute.text).integer(20, kText);
  if (attribute.array) return message.message(5, tensor_message("", *attribute.array)).integer(20, kTensor);
  for (const std::int64_t each : attribute.integers) message.integer(8, each);
  return message.integer(20, kIntegers);
}

WireWriter node_message(const Node& node) {
  WireWriter message;
  for (const std::string& name : node.inputs) message.text(1, name);
  for (const std::string& name : node.outputs) message.text(2, name);
  message.text(3, node.name).text(4, node.operation);
  for (const Attribute& attribute : node.attributes) message.message(5, attribute_message(attribute));
  return message;
}

WireWriter value_message(const ValueInfo& value) {
  WireWriter type;
  if (value.dtype) type.integer(1, number_of(*value.dtype));
  if (value.shape) {
    WireWriter shape;
    for (const std::string& length : *value.shape) {
      WireWriter dimension;
      if (!length.empty() && std::ranges::all_of(length, [](unsigned char c) { return std::isdigit(c) != 0; }))
        dimension.integer(1, std::stoll(length));
      else if (length != "?")
        dimension.text(2, length);
      shape.message(1, dimension);
    }
    type.message(2, shape);
  }
  return std::move(WireWriter().text(1, value.name).message(2, WireWriter().message(1, type)));
}

}  // namespace

std::string model_bytes(const ModelFile& model) {
  std::uint64_t weights = 0;
  for (const auto& [name, array] : model.initializers) weights += array.bytes();
  const auto check = [](std::uint64_t bytes) {
    if (bytes > kMostBytes)
      raise<DataError>("[save_onnx] the file would have {} bytes, and ONNX's may have {} with weights in it", bytes,
                       kMostBytes);
  };
  check(weights);
  WireWriter graph;
  for (const Node& node : model.nodes) graph.message(1, node_message(node));
  graph.text(2, "tutti");
  for (const auto& [name, array] : model.initializers) graph.message(5, tensor_message(name, array));
  for (const ValueInfo& input : model.inputs) graph.message(11, value_message(input));
  for (const ValueInfo& output : model.outputs) graph.message(12, value_message(output));
  WireWriter all;
  all.integer(1, kFormat).text(2, "tutti").text(3, TUTTI_VERSION);
  all.message(7, graph).message(8, WireWriter().text(1, "").integer(2, model.opset));
  std::string buffers;
  for (const std::string& name : model.buffers) buffers += name + "\n";
  if (!buffers.empty()) all.message(14, WireWriter().text(1, kBuffersKey).text(2, buffers));
  check(all.bytes().size());
  return all.bytes();
}

}  // namespace tutti::onnx
