// SPDX-License-Identifier: Apache-2.0
// Every operation of the table, called with what does not fit: its error names the operation, the dtype and shape of
// the operand, and where that was made. An operation that refuses nothing, or names another, is noticed.
#include <doctest/doctest.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/scope.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/references/operations.h>
#include <tutti/tests/test_devices.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

using namespace tutti;
using namespace tutti::testing;

namespace {

const Shape kFitsNothing{31, 29};  // longer than what indices of cases point to

/// Made by an operation in a Scope if it can have a gradient.
Tensor made_in_encoder(const Array& value) {
  if (!is_floating(value.dtype())) return Tensor(value.to(test_device()));
  const Tensor leaf(value.to(test_device()), true);
  const Scope scope("encoder");
  return exp(leaf);
}

/// One call with something wrong, and the operand whose description its error has.
struct BadCall {
  Call call;
  std::size_t place;
  std::string what;
};

BadCall with_operand(const ReferenceCase& reference, std::size_t place, const Tensor& operand, std::string what) {
  BadCall bad{{{}, reference.attributes}, place, std::move(what)};
  for (const Array& input : reference.inputs) bad.call.x.emplace_back(input.to(test_device()));
  bad.call.x[place] = operand;
  return bad;
}

std::vector<BadCall> bad_calls(const ReferenceCase& reference) {
  static const std::map<std::string, std::string> kBroken{{"axis", "99"},     {"axes", "99,99"}, {"class_axis", "99"},
                                                          {"shape", "31,29"}, {"groups", "31"},  {"normalized", "31"}};
  std::vector<BadCall> calls;
  for (const auto& [name, value] : kBroken) {
    if (!reference.attributes.has(name)) continue;
    calls.push_back(with_operand(reference, 0, made_in_encoder(reference.inputs.at(0)), name));
    calls.back().call.attributes.set(name, value);
  }
  for (std::size_t place = 0; place < reference.inputs.size(); ++place) {
    const Array& input = reference.inputs[place];
    const Array misshapen = Array::zeros(kFitsNothing, input.dtype(), cpu(0));
    calls.push_back(with_operand(reference, place, made_in_encoder(misshapen), "the shape"));
    const DType other = input.dtype() == DType::boolean ? DType::f32 : DType::boolean;
    calls.push_back(
        with_operand(reference, place, made_in_encoder(Array::zeros(input.shape(), other, cpu(0))), "bool"));
  }
  if (!reference.inputs.empty()) calls.push_back(with_operand(reference, 0, Tensor(), "an undefined operand"));
  return calls;
}

/// Waits for the device, which may find out only now that a matrix of zeros is singular.
void settle() {
  try {
    synchronize(test_device());
  } catch (const LinearAlgebraError&) {
  }
}

/// What the call throws; nothing if it fits all the same.
std::optional<std::string> error_of(const Operation& operation, const Call& call) {
  try {
    operation.run(call);
    settle();
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

// The table makes modules for the type of x, whose members the other operands become, and copies of the statistics. A
// log_softmax stands before ctc_loss.
bool reaches_operation(const std::string& operation, const BadCall& bad) {
  if (operation == "rnn" || operation == "lstm" || operation == "gru") return bad.place == 0 && bad.what == "the shape";
  if (operation == "ctc_loss") return bad.place == 1 || bad.what == "an undefined operand";
  return operation != "batch_norm" || (bad.place != 1 && bad.place != 2);
}

}  // namespace

TEST_CASE("references: what every operation made bears its name, not that of its last step") {
  std::map<std::string, ReferenceCase> cases;
  for (const std::string& file : reference_files())
    for (ReferenceCase& reference : reference_cases(file)) cases.try_emplace(reference.operation, std::move(reference));
  int named = 0;
  for (const Operation& operation : all_operations()) {
    if (operation.name.starts_with("literal")) continue;  // several operations in one
    const ReferenceCase& reference = cases.at(operation.name);
    Call call{{}, reference.attributes};
    for (const Array& input : reference.inputs)
      call.x.emplace_back(input.to(test_device()), is_floating(input.dtype()));
    for (const Tensor& result : operation.run(call)) {
      if (!result.node()) continue;
      ++named;
      INFO(operation.name, ": ", result.node()->title());
      CHECK(begins_with_name(result.node()->title() + ".", operation, "", "."));
    }
  }
  CHECK(named > 100);
}

TEST_CASE("references: errors of every operation name it, the operands and where they were made") {
  std::map<std::string, std::vector<ReferenceCase>> cases;
  for (const std::string& file : reference_files())
    for (ReferenceCase& reference : reference_cases(file)) cases[reference.operation].push_back(std::move(reference));
  for (const Operation& operation : all_operations()) {
    if (operation.name.starts_with("literal")) continue;  // several operations in one
    int refused = 0;
    const auto& some = cases[operation.name];
    for (std::size_t i = 0; i < std::min<std::size_t>(some.size(), 5); ++i)
      for (const BadCall& bad : bad_calls(some[i])) {
        if (!reaches_operation(operation.name, bad)) continue;
        const auto error = error_of(operation, bad.call);
        if (!error) continue;
        ++refused;
        INFO(some[i].name, ", ", bad.what, " ", bad.place, ": ", *error);
        CHECK(begins_with_name(*error, operation, "[", "] "));
        CHECK_FALSE(names_inner_operation(*error));
        const Tensor& operand = bad.call.x[bad.place];
        if (!operand.defined()) continue;
        CHECK(error->find(fmt::format("{} {}", to_string(operand.dtype()), to_string(operand.shape()))) !=
              std::string::npos);
        if (operand.requires_grad()) CHECK(error->find("made by exp in encoder") != std::string::npos);
      }
    CHECK_MESSAGE(refused > 0, operation.name, " refuses nothing");
  }
}
