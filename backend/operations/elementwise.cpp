// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <array>

namespace tutti {
namespace {

using elementwise::Domain;

constexpr auto kDomains = [] {
  std::array<Domain, elementwise::AllOperations::size> domains{};
  std::size_t index = 0;
  elementwise::AllOperations::for_each([&]<class O>(std::type_identity<O>) { domains[index++] = O::domain; });
  return domains;
}();

void require_domain(std::string_view name, Domain domain, const Array& array) {
  switch (domain) {
    case Domain::floating: checks::require_floating(name, array); break;
    case Domain::number: checks::require_number(name, array); break;
    case Domain::bits:
      if (is_floating(array.dtype())) checks::raise_dtype(name, array, "an integral type or bool");
      break;
    case Domain::any: break;
  }
}

constexpr std::size_t kMostInputs = 3;

}  // namespace

Array detail::elementwise(std::string_view name, const ElementwiseCall& call, std::span<const Array> inputs,
                          DType output) {
  const Array& first = inputs.front();
  checks::require_defined(name, first);
  require_domain(name, kDomains[call.operation], first);
  bool same_shape = true;
  for (const Array& input : inputs.subspan(1)) {
    checks::require_alike(name, first, input);
    same_shape = same_shape && input.shape() == first.shape();
  }
  Backend& backend = backend_for(first.device());
  if (same_shape) {
    Array result = Array::empty(first.shape(), output, first.device());
    if (result.size() > 0) backend.elementwise(call, inputs, result);
    return result;
  }
  if (inputs.size() > kMostInputs) raise<ShapeError>("[{}] {} operands are too many", name, inputs.size());
  Shape shape = first.shape();
  for (const Array& input : inputs.subspan(1)) shape = broadcast_shapes(name, shape, input.shape());
  std::array<Array, kMostInputs> broadcast;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    broadcast[i] = inputs[i].shape() == shape ? inputs[i] : inputs[i].broadcast_to(shape);
  Array result = Array::empty(shape, output, first.device());
  if (result.size() > 0) backend.elementwise(call, std::span(broadcast.data(), inputs.size()), result);
  return result;
}

Array where(const Array& mask, const Array& a, const Array& b) {
  checks::require_alike("where", a, b);
  checks::require_same_device("where", mask, a);
  checks::require_dtype("where", mask, DType::boolean);
  const Shape shape = broadcast_shapes("where", broadcast_shapes("where", mask.shape(), a.shape()), b.shape());
  Array result = Array::empty(shape, a.dtype(), a.device());
  if (result.size() > 0)
    backend_for(a.device()).where(mask.broadcast_to(shape), a.broadcast_to(shape), b.broadcast_to(shape), result);
  return result;
}

}  // namespace tutti
