// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/device.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::onnx {

/// One of a node's attributes; what is not of its type is empty.
struct Attribute {
  std::string name;
  std::optional<double> number = {};  ///< a float
  std::optional<std::int64_t> integer = {};
  std::optional<std::string> text = {};
  std::optional<Array> array = {};
  std::vector<double> numbers = {};
  std::vector<std::int64_t> integers = {};
  bool is_graph = false;  ///< a graph, or several, which are not read
};

struct Node {
  std::string name;
  std::string operation;  ///< name, with its domain unless that is ONNX's own: "com.microsoft.Gelu"
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<Attribute> attributes;
};

/// An input or output of a graph.
struct ValueInfo {
  std::string name;
  std::optional<DType> dtype = {};                     ///< none: not told, or none that arrays have
  std::optional<std::vector<std::string>> shape = {};  ///< a length, a name, or "?" each; none: not told
};

/// Name of the entry of a model's metadata that has the names of its buffers, a line each.
inline constexpr std::string_view kBuffersKey = "tutti.buffers";

struct ModelFile {
  std::int64_t opset = 0;
  std::vector<Node> nodes;
  std::vector<std::pair<std::string, Array>> initializers;
  std::vector<ValueInfo> inputs;  ///< inputs that no initializer gives
  std::vector<ValueInfo> outputs;
  /// Initializers that are told to be no weights, as models saved by this library tell.
  std::set<std::string> buffers;
};

/// Reads a model. Weights lie on the device; on a CPU one they are views of the file where they are aligned there.
/// Throws DataError naming the path, and what and where is malformed, missing, or of a type that no array has.
ModelFile read_model(const std::string& path, Device);

/// Reads a file with one tensor, as ONNX's tests have them. Throws as read_model does.
Array read_tensor(const std::string& path, Device);

/// Type of elements by its number in ONNX; none: arrays have no such type.
std::optional<DType> dtype_of(std::int64_t number);
/// The type's number in ONNX.
std::int64_t number_of(DType);

}  // namespace tutti::onnx
