// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/onnx/format/model_file.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::onnx {

using Tensors = std::vector<Tensor>;
using Integers = std::vector<std::int64_t>;

/// One node's work with its inputs. Functions that ask for what is missing, or is not as ONNX says, throw DataError.
class OperatorCall {
 public:
  OperatorCall(const Node& node, std::span<const Tensor> inputs, std::int64_t opset)
      : node_(node), inputs_(inputs), opset_(opset) {}

  std::int64_t opset() const noexcept { return opset_; }
  std::size_t inputs() const noexcept { return inputs_.size(); }
  std::size_t outputs() const noexcept { return node_.outputs.size(); }
  bool wants(std::size_t output) const { return output < outputs() && !node_.outputs[output].empty(); }

  bool has(std::size_t input) const noexcept { return input < inputs_.size() && inputs_[input].defined(); }
  const Tensor& in(std::size_t input) const;
  Tensor optional(std::size_t input) const { return has(input) ? inputs_[input] : Tensor(); }
  Integers values(std::size_t input) const;  ///< elements of an input of integers, on the host
  double value(std::size_t input) const;     ///< the only element of an input
  std::span<const Tensor> all() const noexcept { return inputs_; }

  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::optional<Integers> integers(std::string_view name) const;
  std::vector<double> numbers(std::string_view name) const;
  std::optional<Array> array(std::string_view name) const;
  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  /// Integers that an attribute had in earlier versions, and an input has in later ones.
  std::optional<Integers> integers(std::string_view name, std::size_t input) const;

  /// An axis of so many, counted from the front; ONNX counts from the back too. Throws DataError for one that there is
  /// not.
  std::int64_t from_front(std::int64_t axis, std::int64_t rank) const;

  /// Throws DataError, for what an operator does not do.
  [[noreturn]] void refuse(const std::string& what) const;
  /// Throws DataError for an attribute that nobody has asked for: what it says would be ignored.
  void check_attributes() const;

 private:
  const Attribute* find(std::string_view name) const;

  const Node& node_;
  std::span<const Tensor> inputs_;
  std::int64_t opset_;
  mutable std::uint64_t asked_ = 0;  // attributes, by bits
};

/// Its values, which say how an operator works. While it is captured, CaptureError unless they are constants of the
/// model: what is computed, of constants too, is none.
std::vector<double> host_numbers(const Tensor& x);

/// A constant without axes, on x's device; of x's type, if no other is given.
Tensor scalar_like(const Tensor& x, double value);
Tensor scalar_like(const Tensor& x, std::int64_t value, DType dtype);

/// The outputs of a node.
using Operator = Tensors (*)(const OperatorCall&);

struct OperatorEntry {
  std::string_view name;
  Operator run;
};

/// The operator of that name; null: there is none.
Operator find_operator(std::string_view name);

// Operators by subject: files of these names.
std::span<const OperatorEntry> attention_operators();
std::span<const OperatorEntry> convolution_operators();
std::span<const OperatorEntry> elementwise_operators();
std::span<const OperatorEntry> index_operators();
std::span<const OperatorEntry> layer_operators();
std::span<const OperatorEntry> pooling_operators();
std::span<const OperatorEntry> recurrent_operators();
std::span<const OperatorEntry> reduction_operators();
std::span<const OperatorEntry> resizing_operators();
std::span<const OperatorEntry> shape_operators();

}  // namespace tutti::onnx
