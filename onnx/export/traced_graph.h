// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/onnx/format/model_file.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::onnx {

using ValueId = std::int32_t;  ///< place of a value in its graph

/// An operand of a node: a value, or whole numbers that are known while a model runs, and are others where lengths are,
/// as Reshape's shape.
struct Operand {
  ValueId value = kNoValue;
  std::vector<std::int64_t> numbers;
  bool is_scalar = false;  ///< one number without an axis

  static constexpr ValueId kNoValue = -1;
  Operand(ValueId operand) : value(operand) {}  // NOLINT: values stand in lists of operands
  explicit Operand(std::vector<std::int64_t> operand, bool scalar = false)
      : numbers(std::move(operand)), is_scalar(scalar) {}
  bool is_value() const noexcept { return value != kNoValue; }
};

struct TracedNode {
  std::string operation;  ///< name of ONNX's operator
  std::vector<Operand> inputs;
  std::vector<ValueId> outputs;
  std::vector<Attribute> attributes;
  std::string place;  ///< layer that called it, "Net.block: Linear", or scope; empty: none
};

/// Operators of ONNX's, in the order in which a model ran them with inputs of certain lengths. Functions that add one
/// return its value, whose type and shape they work out; a node's operands fit each other.
class TracedGraph {
 public:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  static constexpr std::int64_t kToTheEnd = std::int64_t{0x7fffffffffffffff};  ///< end of a slice

  struct Value {
    DType dtype;
    Shape shape;
    bool varies = false;              ///< made of an input: it may be different in another run
    std::size_t node = kNowhere;      ///< place of the node that makes it
    std::size_t constant = kNowhere;  ///< its place among the constants
  };
  /// A value that the file holds.
  struct Constant {
    ValueId value;
    std::string name;  ///< empty: none of the model's members
    Array array;
  };

  ValueId add_input(DType, const Shape&);
  ValueId add_constant(std::string name, const Array&);
  /// A number without axes; one value for each number and type.
  ValueId number(double, DType);

  ValueId add(std::string operation, std::vector<Operand> inputs, DType, const Shape&,
              std::vector<Attribute> attributes = {});
  /// The same of several outputs, each with a type and a shape; their values follow each other.
  ValueId add(std::string operation, std::vector<Operand> inputs, std::vector<Value> outputs,
              std::vector<Attribute> attributes);
  /// One whose output has the type and the shape of its first input.
  ValueId like(std::string operation, std::initializer_list<ValueId> inputs, std::vector<Attribute> attributes = {});
  /// One whose output has the type of its first input and the shape that its inputs broadcast to.
  ValueId broadcast(std::string operation, std::initializer_list<ValueId> inputs);

  ValueId cast(ValueId, DType);  ///< itself if it is of that type
  ValueId reshape(ValueId, const Shape&);
  ValueId expand(ValueId, const Shape&);
  ValueId transpose(ValueId, const std::vector<std::int64_t>& axes);
  ValueId concatenate(const std::vector<ValueId>&, std::size_t axis);
  ValueId slice(ValueId, std::size_t axis, std::int64_t begin, std::int64_t end);
  ValueId filled(const Shape&, const Array& number);  ///< an array of one number

  const Value& value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  const Shape& shape(ValueId id) const { return value(id).shape; }
  DType dtype(ValueId id) const { return value(id).dtype; }
  bool varies(ValueId id) const { return value(id).varies; }
  /// The node that makes a value, if it is such an operator; null: none or another.
  const TracedNode* made_by(ValueId, std::string_view operation) const;
  /// The only element of a constant; none: it is no constant, or has more of them.
  std::optional<double> constant_number(ValueId) const;
  std::size_t values() const noexcept { return values_.size(); }

  std::vector<TracedNode> nodes;
  std::vector<Constant> constants;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;

 private:
  ValueId add_value(Value);

  std::deque<Value> values_;  // values by id; deque: they stay where they are when others are added
  std::map<std::pair<DType, std::uint64_t>, ValueId> numbers_;  // values by type and the number's bits
};

/// An attribute of one whole number.
inline Attribute integer_attribute(std::string_view name, std::int64_t value) {
  return {.name = std::string(name), .integer = value};
}
inline Attribute integers_attribute(std::string_view name, std::vector<std::int64_t> values) {
  return {.name = std::string(name), .integers = std::move(values)};
}
inline Attribute number_attribute(std::string_view name, double value) {
  return {.name = std::string(name), .number = value};
}
inline Attribute text_attribute(std::string_view name, std::string_view value) {
  return {.name = std::string(name), .text = std::string(value)};
}

/// Numbers of an operand with one axis.
inline Operand numbers(std::vector<std::int64_t> all) { return Operand(std::move(all)); }
inline Operand numbers(std::int64_t only) { return Operand(std::vector{only}); }
inline Operand lengths(const Dims& dims) { return Operand(std::vector(dims.begin(), dims.end())); }
/// A number without an axis.
inline Operand scalar_number(std::int64_t only) { return Operand(std::vector{only}, true); }

}  // namespace tutti::onnx
