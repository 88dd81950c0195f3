// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small models of ONNX, written by hand: field numbers are those of onnx.proto.

#include <tutti/onnx/format/wire_writer.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace tutti::testing {

using Message = onnx::WireWriter;

template <class T> std::string raw(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// A tensor of raw bytes; type 1 is f32, 7 is i64.
inline Message tensor(const std::string& name, const std::vector<std::int64_t>& shape, std::int64_t type,
                      const std::string& bytes) {
  Message message;
  for (const std::int64_t length : shape) message.integer(1, length);
  return message.integer(2, type).text(8, name).text(9, bytes);
}
inline Message tensor(const std::string& name, const std::vector<std::int64_t>& shape,
                      const std::vector<float>& values) {
  return tensor(name, shape, 1, raw(values));
}

inline Message node(const std::string& operation, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::vector<Message>& attributes = {}) {
  Message message;
  for (const std::string& name : inputs) message.text(1, name);
  for (const std::string& name : outputs) message.text(2, name);
  message.text(3, "of " + outputs.front()).text(4, operation);
  for (const Message& attribute : attributes) message.message(5, attribute);
  return message;
}
inline Message integer_attribute(const std::string& name, std::int64_t value) {
  return Message().text(1, name).integer(3, value).integer(20, 2);
}

/// An input or output: a length, or 0 for one that is named n.
inline Message value(const std::string& name, const std::vector<std::int64_t>& shape, std::int64_t type = 1) {
  Message lengths;
  for (const std::int64_t length : shape)
    lengths.message(1, length > 0 ? Message().integer(1, length) : Message().text(2, "n"));
  return Message().text(1, name).message(2, Message().message(1, Message().integer(1, type).message(2, lengths)));
}

struct Graph {
  std::vector<Message> nodes;
  std::vector<Message> initializers = {};
  std::vector<Message> inputs = {};
  std::vector<Message> outputs = {};
};

inline std::string model_bytes(const Graph& graph, std::int64_t opset = 20) {
  Message all;
  for (const Message& each : graph.nodes) all.message(1, each);
  for (const Message& each : graph.initializers) all.message(5, each);
  for (const Message& each : graph.inputs) all.message(11, each);
  for (const Message& each : graph.outputs) all.message(12, each);
  return Message().integer(1, 9).message(7, all).message(8, Message().text(1, "").integer(2, opset)).bytes();
}

/// y = relu(x weight^T + bias): x [n, 3] -> y [n, 2].
inline Graph small_layer() {
  return {.nodes = {node("Gemm", {"x", "weight", "bias"}, {"sum"}, {integer_attribute("transB", 1)}),
                    node("Relu", {"sum"}, {"y"})},
          .initializers = {tensor("weight", {2, 3}, {1, 2, 3, -1, -2, -3}), tensor("bias", {2}, {0.5F, 1})},
          .inputs = {value("x", {0, 3})},
          .outputs = {value("y", {0, 2})}};
}

}  // namespace tutti::testing
