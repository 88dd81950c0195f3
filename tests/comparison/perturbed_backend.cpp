// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/comparison/perturbed_backend.h>

#include <tutti/backend/elementwise/lists.h>
#include <tutti/backend/kernel.h>
#include <tutti/testing/devices/elementwise_samples.h>

#include <cmath>
#include <span>
#include <type_traits>
#include <variant>

namespace tutti::testing {

namespace {

// --- a kernel's name is followed by the number of its kind, where an argument asks for one of several

/// How many kinds a parameter tells apart; 0: it is none that does.
template <class Parameter> inline constexpr std::size_t kKinds = [] {
  static_assert(!std::is_enum_v<Parameter>, "say here how many enumerators it has");
  return std::size_t{0};
}();
template <> inline constexpr std::size_t kKinds<Reduction> = 5;
template <> inline constexpr std::size_t kKinds<ArgReduction> = 2;
template <> inline constexpr std::size_t kKinds<Scatter> = 5;
template <> inline constexpr std::size_t kKinds<SoftmaxKind> = 2;
template <> inline constexpr std::size_t kKinds<LinearActivation> = 3;
template <> inline constexpr std::size_t kKinds<RecurrentGates> = 4;
template <> inline constexpr std::size_t kKinds<Factorization> = 6;
template <> inline constexpr std::size_t kKinds<FourierTransform> = 3;
template <> inline constexpr std::size_t kKinds<RandomCall> = 3;
template <> inline constexpr std::size_t kKinds<OptimizerRule> = std::variant_size_v<OptimizerRule>;

template <class T> std::size_t kind_of(const T& argument) {
  if constexpr (std::is_enum_v<T>)
    return static_cast<std::size_t>(argument);
  else if constexpr (std::is_same_v<T, OptimizerRule>)
    return argument.index();
  else
    return static_cast<std::size_t>(argument.kind);
}

std::string with_kind(std::string_view name, std::size_t kind) {
  return std::string(name) + " " + std::to_string(kind);
}

// --- elementwise operations have a kernel for each formula

constexpr const char* kParts[] = {"", "'s gradient", "'s left gradient", "'s right gradient"};

std::string name_of(const ElementwiseCall& call) {
  std::string name;
  std::uint16_t index = 0;
  elementwise::AllOperations::for_each([&]<class O>(std::type_identity<O>) {
    if (index++ == call.operation) name = O::name;
  });
  return name + kParts[static_cast<std::size_t>(call.part)];
}

void insert_elementwise(std::set<std::string>& names) {
  elementwise::AllOperations::for_each([&]<class O>(std::type_identity<O>) {
    names.insert(O::name);
    if constexpr (elementwise::has_gradient_kernel<O>) {
      const std::size_t first = samples::is_binary<O> ? 2 : 1;
      for (std::size_t part = first; part < 2 * first; ++part) names.insert(std::string(O::name) + kParts[part]);
    }
  });
}

template <class Kernel, class... Arguments> std::string name_of_call(const Arguments&... arguments) {
  std::string name(Kernel::name);
  const auto visit = [&]<class T>(const T& argument) {
    if constexpr (std::is_same_v<T, ElementwiseCall>)
      name = name_of(argument);
    else if constexpr (kKinds<T> > 0)
      name = with_kind(Kernel::name, kind_of(argument));
  };
  (visit(arguments), ...);
  return name;
}

template <class Kernel, class... Parameters>
void insert_names(std::set<std::string>& names, kernel::ParameterList<Parameters...>) {
  const std::size_t kinds = (std::size_t{0} + ... + kKinds<std::remove_cvref_t<Parameters>>);
  for (std::size_t kind = 0; kind < kinds; ++kind) names.insert(with_kind(Kernel::name, kind));
  if (kinds == 0) names.emplace(Kernel::name);
}

/// By a tenth of a thousandth of 1 or more.
void spoil_last(const Array& output) {
  std::int64_t place = 0;
  for (std::size_t axis = 0; axis < output.rank(); ++axis) place += (output.shape()[axis] - 1) * output.strides()[axis];
  visit_dtype(output.dtype(), [&]<class T>(std::type_identity<T>) {
    T& last = output.data<T>()[place];
    if constexpr (std::is_same_v<T, bool>)
      last = !last;
    else if constexpr (std::is_integral_v<T>)
      last ^= 1;
    else
      last = std::isfinite(static_cast<double>(last)) ? static_cast<T>(static_cast<double>(last) * 1.1 + 1e-4) : T(0);
  });
}

/// What a kernel writes to first.
template <class Kernel, class... Arguments> Array first_output(const Arguments&... arguments) {
  Array first;
  kernel::for_each_output<Kernel>(
      [&](const Array& output) {
        if (!first.defined()) first = output;
      },
      arguments...);
  return first;
}
template <>
Array first_output<kernel::optimizer_step>(const OptimizerRule&, const std::span<const RuleOperands>& parameters) {
  return parameters.front().parameter;
}

}  // namespace

PerturbedBackend::PerturbedBackend() : ForwardingBackend(cpu) {}
PerturbedBackend::~PerturbedBackend() = default;

std::set<std::string> PerturbedBackend::all_kernels() {
  std::set<std::string> names;
  insert_elementwise(names);
  kernel::for_each([&]<class Kernel>(std::type_identity<Kernel>) {
    if constexpr (!std::is_same_v<Kernel, kernel::elementwise>)
      insert_names<Kernel>(names, typename Kernel::Parameters());
  });
  return names;
}

template <class Kernel, class... Arguments> void PerturbedBackend::call(Kernel, const Arguments&... arguments) {
  Kernel::run(cpu, arguments...);
  const std::string name = name_of_call<Kernel>(arguments...);
  ran.insert(name);
  if (name != perturbed) return;
  const Array output = first_output<Kernel>(arguments...);
  if (output.size() == 0) return;
  cpu.compute_stream(output.device()).synchronize();
  spoil_last(output);
}

}  // namespace tutti::testing
