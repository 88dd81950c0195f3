// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/operators/operator_call.h>

#include <tutti/backend/capture/capture.h>
#include <tutti/backend/raise.h>

#include <map>
#include <optional>

namespace tutti::onnx {

namespace {

/// Lets a capture have values read that are the same in every run; others are refused there.
template <class T> std::vector<T> values_on_host(const Tensor& x, DType dtype) {
  std::optional<CaptureSuspension> off;
  if (const Capture* capture = active_capture(); capture != nullptr && capture->is_constant(x.array())) off.emplace();
  return x.array().to(cpu()).cast(dtype).to_vector<T>();
}

}  // namespace

std::vector<double> host_numbers(const Tensor& x) { return values_on_host<double>(x, DType::f64); }

const Tensor& OperatorCall::in(std::size_t input) const {
  if (!has(input)) refuse(fmt::format("input {} is missing", input));
  return inputs_[input];
}

Integers OperatorCall::values(std::size_t input) const {
  const Tensor& x = in(input);
  if (is_floating(x.dtype())) refuse(fmt::format("input {} has to be integers", input));
  return values_on_host<std::int64_t>(x, DType::i64);
}

double OperatorCall::value(std::size_t input) const {
  const Tensor& x = in(input);
  if (x.size() != 1) refuse(fmt::format("input {} has to be one number", input));
  return host_numbers(x)[0];
}

const Attribute* OperatorCall::find(std::string_view name) const {
  for (std::size_t i = 0; i < node_.attributes.size(); ++i)
    if (node_.attributes[i].name == name) {
      if (i < 64) asked_ |= std::uint64_t{1} << i;
      return &node_.attributes[i];
    }
  return nullptr;
}

std::int64_t OperatorCall::integer(std::string_view name, std::int64_t otherwise) const {
  const Attribute* const found = find(name);
  if (found && !found->integer) refuse(fmt::format("{} has to be an integer", name));
  return found ? *found->integer : otherwise;
}

double OperatorCall::number(std::string_view name, double otherwise) const {
  const Attribute* const found = find(name);
  if (found && !found->number) refuse(fmt::format("{} has to be a number", name));
  return found ? *found->number : otherwise;
}

std::string OperatorCall::text(std::string_view name, std::string_view otherwise) const {
  const Attribute* const found = find(name);
  if (found && !found->text) refuse(fmt::format("{} has to be a text", name));
  return found ? *found->text : std::string(otherwise);
}

std::optional<Integers> OperatorCall::integers(std::string_view name) const {
  const Attribute* const found = find(name);
  return found ? std::optional(found->integers) : std::nullopt;
}

std::vector<double> OperatorCall::numbers(std::string_view name) const {
  const Attribute* const found = find(name);
  return found ? found->numbers : std::vector<double>();
}

std::optional<Array> OperatorCall::array(std::string_view name) const {
  const Attribute* const found = find(name);
  return found ? found->array : std::nullopt;
}

std::optional<Integers> OperatorCall::integers(std::string_view name, std::size_t input) const {
  if (has(input)) return values(input);
  return integers(name);
}

std::int64_t OperatorCall::from_front(std::int64_t axis, std::int64_t rank) const {
  if (axis < -rank || axis >= rank) refuse("axis " + std::to_string(axis) + " of " + std::to_string(rank));
  return axis < 0 ? axis + rank : axis;
}

void OperatorCall::refuse(const std::string& what) const {
  raise<DataError>("[onnx] {}{}: {}", node_.operation, node_.name.empty() ? "" : fmt::format(" \"{}\"", node_.name),
                   what);
}

void OperatorCall::check_attributes() const {
  for (std::size_t i = 0; i < node_.attributes.size(); ++i)
    if (i >= 64 || (asked_ >> i & 1U) == 0)
      refuse(fmt::format("its attribute {} is not known", node_.attributes[i].name));
}

Tensor scalar_like(const Tensor& x, double value) {
  return full({}, value, {.dtype = x.dtype(), .device = x.device()});
}

Tensor scalar_like(const Tensor& x, std::int64_t value, DType dtype) {
  return full({}, value, {.dtype = dtype, .device = x.device()});
}

Operator find_operator(std::string_view name) {
  static const std::map<std::string_view, Operator> all = [] {
    std::map<std::string_view, Operator> found;
    for (const auto& entries :
         {attention_operators(), convolution_operators(), elementwise_operators(), index_operators(), layer_operators(),
          pooling_operators(), recurrent_operators(), reduction_operators(), resizing_operators(), shape_operators()})
      for (const OperatorEntry& entry : entries) found.emplace(entry.name, entry.run);
    return found;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace tutti::onnx
