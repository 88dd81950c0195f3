// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/operations/elementwise_calls.h>

#include <cstring>

namespace tutti::testing {
namespace {

template <class O> Results run(const Call& call) {
  O operation{};
  if constexpr (elementwise::parameter_count<O> > 0) {
    const std::vector<double> parameters = call.attributes.numbers("parameters");
    if (parameters.size() != elementwise::parameter_count<O>) throw Error("the case needs the operation's parameters");
    std::memcpy(static_cast<void*>(&operation), parameters.data(), sizeof(O));
  }
  constexpr bool kBinary = requires(const O& o, float x) { o.value(x, x); };
  if constexpr (kBinary)
    return tutti::call(operation, call.x.at(0), call.x.at(1));
  else
    return tutti::call(operation, call.x.at(0));
}

/// Operators have other names than the structs.
std::string declared_name(const std::string& name) {
  static const std::map<std::string, std::string> kOperators{
      {"negate", "operator-"},      {"add", "operator+"},        {"subtract", "operator-"},
      {"multiply", "operator*"},    {"divide", "operator/"},     {"remainder", "operator% remainder"},
      {"bitwise_and", "operator&"}, {"bitwise_or", "operator|"}, {"bitwise_xor", "operator^"},
      {"equal", "operator=="},      {"not_equal", "operator!="}, {"less", "operator<"},
      {"less_equal", "operator<="}, {"greater", "operator>"},    {"greater_equal", "operator>="},
  };
  const auto found = kOperators.find(name);
  return found == kOperators.end() ? name : found->second;
}

}  // namespace

std::vector<Operation> elementwise_operations() {
  std::vector<Operation> operations;
  elementwise::AllOperations::for_each([&]<class O>(std::type_identity<O>) {
    operations.push_back({O::name, declared_name(O::name), run<O>});
  });
  return operations;
}

}  // namespace tutti::testing
