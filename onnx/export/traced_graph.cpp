// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/export/traced_graph.h>

#include <tutti/autodiff/scope.h>
#include <tutti/backend/error.h>

#include <algorithm>
#include <atomic>
#include <bit>

namespace tutti::onnx {

namespace {

/// The layer that the thread runs, as errors name it; else its scope.
std::string place_of_call() {
  const auto describe = detail::module_of_thread.load(std::memory_order_relaxed);
  std::string place = describe != nullptr ? describe() : "";
  if (const auto& site = Scope::site(); place.empty() && site != nullptr) place = to_string(*site);
  return place;
}

}  // namespace

ValueId TracedGraph::add_value(Value value) {
  values_.push_back(std::move(value));
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId TracedGraph::add_input(DType dtype, const Shape& shape) {
  inputs.push_back(add_value({dtype, shape, true}));
  return inputs.back();
}

ValueId TracedGraph::add_constant(std::string name, const Array& array) {
  const ValueId value = add_value({array.dtype(), array.shape(), false, kNowhere, constants.size()});
  constants.push_back({value, std::move(name), array});
  return value;
}

ValueId TracedGraph::number(double number, DType dtype) {
  const auto [found, added] = numbers_.try_emplace({dtype, std::bit_cast<std::uint64_t>(number)});
  if (added) found->second = add_constant("", Array::full({}, number, DType::f64, cpu()).cast(dtype));
  return found->second;
}

ValueId TracedGraph::add(std::string operation, std::vector<Operand> inputs, std::vector<Value> outputs,
                         std::vector<Attribute> attributes) {
  TracedNode node{std::move(operation), std::move(inputs), {}, std::move(attributes), {}};
  node.place = place_of_call();
  const bool made_of_inputs = std::ranges::any_of(
      node.inputs, [&](const Operand& operand) { return operand.is_value() && varies(operand.value); });
  for (const Value& output : outputs)
    node.outputs.push_back(add_value({output.dtype, output.shape, made_of_inputs, nodes.size()}));
  nodes.push_back(std::move(node));
  return nodes.back().outputs.front();
}

const TracedNode* TracedGraph::made_by(ValueId id, std::string_view operation) const {
  const std::size_t node = value(id).node;
  return node != kNowhere && nodes[node].operation == operation ? &nodes[node] : nullptr;
}

std::optional<double> TracedGraph::constant_number(ValueId id) const {
  const std::size_t constant = value(id).constant;
  if (constant == kNowhere || constants[constant].array.size() != 1) return std::nullopt;
  return constants[constant].array.cast(DType::f64).item<double>();
}

ValueId TracedGraph::add(std::string operation, std::vector<Operand> inputs, DType dtype, const Shape& shape,
                         std::vector<Attribute> attributes) {
  return add(std::move(operation), std::move(inputs), std::vector<Value>{{dtype, shape}}, std::move(attributes));
}

ValueId TracedGraph::like(std::string operation, std::initializer_list<ValueId> inputs,
                          std::vector<Attribute> attributes) {
  const Value first = value(*inputs.begin());
  return add(std::move(operation), {inputs.begin(), inputs.end()}, first.dtype, first.shape, std::move(attributes));
}

ValueId TracedGraph::broadcast(std::string operation, std::initializer_list<ValueId> inputs) {
  Shape result = shape(*inputs.begin());
  for (const ValueId each : inputs) result = broadcast_shapes(operation, result, shape(each));
  return add(std::move(operation), {inputs.begin(), inputs.end()}, dtype(*inputs.begin()), result);
}

ValueId TracedGraph::cast(ValueId x, DType to) {
  if (dtype(x) == to) return x;
  return add("Cast", {x}, to, Shape(shape(x)), {integer_attribute("to", number_of(to))});
}

ValueId TracedGraph::reshape(ValueId x, const Shape& to) {
  return shape(x) == to ? x : add("Reshape", {x, lengths(to)}, dtype(x), to);
}

ValueId TracedGraph::expand(ValueId x, const Shape& to) {
  return shape(x) == to ? x : add("Expand", {x, lengths(to)}, dtype(x), to);
}

ValueId TracedGraph::transpose(ValueId x, const std::vector<std::int64_t>& axes) {
  Shape to;
  bool moves = false;
  for (const std::int64_t axis : axes) {
    moves = moves || axis != static_cast<std::int64_t>(to.size());
    to.push_back(shape(x)[static_cast<std::size_t>(axis)]);
  }
  return moves ? add("Transpose", {x}, dtype(x), to, {integers_attribute("perm", axes)}) : x;
}

ValueId TracedGraph::concatenate(const std::vector<ValueId>& parts, std::size_t axis) {
  if (parts.size() == 1) return parts.front();
  Shape to = shape(parts.front());
  to[axis] = 0;
  for (const ValueId part : parts) to[axis] += shape(part)[axis];
  return add("Concat", {parts.begin(), parts.end()}, dtype(parts.front()), to,
             {integer_attribute("axis", static_cast<std::int64_t>(axis))});
}

ValueId TracedGraph::slice(ValueId x, std::size_t axis, std::int64_t begin, std::int64_t end) {
  Shape to = shape(x);
  if (begin == 0 && end == to[axis]) return x;
  const std::int64_t last = end == to[axis] ? kToTheEnd : end;
  to[axis] = end - begin;
  return add("Slice", {x, numbers(begin), numbers(last), numbers(static_cast<std::int64_t>(axis))}, dtype(x), to);
}

ValueId TracedGraph::filled(const Shape& to, const Array& number) {
  return expand(add_constant("", number.reshape({})), to);
}

}  // namespace tutti::onnx
