// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/custom_kernel.h>

#include <tutti/backend/backend.h>
#include <tutti/backend/calls/kept_name.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/elementwise/element_run.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace tutti {
namespace {

/// The function for a registered kind; null: there is none.
const CustomKernel::StreamFunction* function_for(const CustomKernel& kernel, DeviceKind kind) {
  const auto& others = kernel.functions().others;
  const auto found = others.find(kind);
  return found == others.end() || !found->second ? nullptr : &found->second;
}

void require_on(const CustomKernel& kernel, std::span<const Array> arrays, const Array& first) {
  for (const Array& each : arrays) {
    checks::require_defined(kernel.name(), each);
    checks::require_same_device(kernel.name(), first, each);
  }
}

}  // namespace

CustomKernel::CustomKernel(std::string name, Functions functions) {
  if (name.empty()) raise("[custom_kernel] a kernel without a name");
  const bool others = std::ranges::any_of(functions.others, [](const auto& each) { return bool(each.second); });
  if (!functions.cpu && !functions.cuda && !others) raise("[{}] the kernel has no function", name);
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda})
    if (functions.others.contains(kind))
      raise("[{}] the function for {} is no other: it is `.{}`", name, kind_name(kind), kind_name(kind));
  name_ = kept_name(std::move(name));
  functions_ = std::make_shared<const Functions>(std::move(functions));
}

CustomKernel CustomKernel::with(std::vector<double> parameters) const {
  CustomKernel same = *this;
  same.parameters_ = std::move(parameters);
  return same;
}

bool CustomKernel::operator==(const CustomKernel& other) const noexcept {
  const auto bits = [](double number) { return std::bit_cast<std::uint64_t>(number); };
  return functions_ == other.functions_ && std::ranges::equal(parameters_, other.parameters_, {}, bits, bits);
}

void detail::raise_no_function(const CustomKernel& kernel, Device device) {
  const CustomKernel::Functions& functions = kernel.functions();
  std::vector<std::string_view> kinds;
  if (functions.cpu) kinds.push_back(kind_name(DeviceKind::cpu));
  if (functions.cuda) kinds.push_back(kind_name(DeviceKind::cuda));
  for (const auto& [kind, function] : functions.others)
    if (function && kind != device.kind) kinds.push_back(kind_name(kind));
  if (function_for(kernel, device.kind) != nullptr)
    raise<DeviceError>(
        "[{}] {} does not call its kind's function: its backend stands around another, whose function it would call",
        kernel.name(), to_string(device));
  raise<DeviceError>("[{}] the kernel has no function for {}: it has one for {}", kernel.name(), to_string(device),
                     fmt::join(kinds, ", "));
}

bool Backend::runs(const CustomKernel& kernel, Device device) const {
  return function_for(kernel, device.kind) != nullptr;
}

void Backend::custom(const CustomKernel& kernel, std::span<const Array> inputs, std::span<const Array> outputs) {
  const Device device = outputs.front().device();
  const CustomKernel::StreamFunction* const function = function_for(kernel, device.kind);
  if (function == nullptr) detail::raise_no_function(kernel, device);
  (*function)({inputs, outputs, kernel.parameters()}, compute_stream(device));
}

void run_kernel(const CustomKernel& kernel, std::span<const Array> inputs, std::span<const Array> outputs) {
  if (outputs.empty()) raise("[{}] the kernel is run without outputs", kernel.name());
  require_on(kernel, outputs, outputs.front());
  require_on(kernel, inputs, outputs.front());
  const Device device = outputs.front().device();
  Backend& backend = backend_for(device);
  if (!backend.runs(kernel, device)) detail::raise_no_function(kernel, device);
  if (std::ranges::all_of(outputs, [](const Array& each) { return each.size() == 0; })) return;
  for (const Array& each : outputs) each.count_write(kernel.name().data());  // also where it fails halfway
  backend.custom(kernel, inputs, outputs);
}

Array run_kernel(const CustomKernel& kernel, std::span<const Array> inputs, const Shape& shape, DType dtype) {
  if (inputs.empty()) raise("[{}] without inputs no device is known: give the output", kernel.name());
  checks::require_defined(kernel.name(), inputs.front());
  const Array outputs[] = {Array::empty(shape, dtype, inputs.front().device())};
  run_kernel(kernel, inputs, outputs);
  return outputs[0];
}

Array detail::custom_elementwise(const CustomKernel& kernel, std::span<const Array> inputs, DType output) {
  const std::string_view name = kernel.name();
  const Array& first = inputs.front();
  checks::require_defined(name, first);
  if (inputs.size() > ElementRun::kInputs) raise<ShapeError>("[{}] {} operands are too many", name, inputs.size());
  Shape shape = first.shape();
  for (const Array& input : inputs.subspan(1)) {
    checks::require_alike(name, first, input);
    if (!(input.shape() == shape)) shape = broadcast_shapes(name, shape, input.shape());
  }
  std::array<Array, ElementRun::kInputs> broadcast;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    broadcast[i] = inputs[i].shape() == shape ? inputs[i] : inputs[i].broadcast_to(shape);
  return run_kernel(kernel, std::span(broadcast.data(), inputs.size()), shape, output);
}

}  // namespace tutti
