// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/profile/kernel_words.h>

#include <tutti/backend/elementwise/formulas.h>

#include <array>
#include <cstddef>
#include <type_traits>
#include <variant>

namespace tutti {

namespace {

/// The word at the enumerator's place in the order of their declaration.
template <class Kind, std::size_t count> std::string at(Kind kind, const std::array<const char*, count>& words) {
  const auto place = static_cast<std::size_t>(kind);
  return place < count ? words[place] : "";
}

}  // namespace

std::string word_of(const ElementwiseCall& call) {
  constexpr std::array kParts{"", " gradient", " lhs gradient", " rhs gradient"};
  return std::string(elementwise::kNames[call.operation]) + at(call.part, kParts);
}

std::string word_of(Reduction kind) { return at(kind, std::array{"sum", "sum_of_squares", "max", "min", "prod"}); }

std::string word_of(ArgReduction kind) { return at(kind, std::array{"arg_max", "arg_min"}); }

std::string word_of(Scatter kind) { return at(kind, std::array{"add", "set", "prod", "max", "min"}); }

std::string word_of(SoftmaxKind kind) { return kind == SoftmaxKind::log_softmax ? "log" : ""; }

std::string word_of(LinearActivation kind) { return at(kind, std::array{"", "relu", "gelu"}); }

std::string word_of(RecurrentGates kind) { return at(kind, std::array{"tanh", "relu", "lstm", "gru"}); }

std::string word_of(Factorization kind) {
  return at(kind, std::array{"cholesky", "qr", "svd", "singular_values", "eigh", "eigenvalues"});
}
std::string word_of(const RecurrentSteps& steps) { return word_of(steps.gates); }

std::string word_of(const RandomCall& call) {
  return at(call.kind, std::array{"uniform", "normal", "truncated_normal"});
}

std::string word_of(const OptimizerRule& rule) {
  constexpr std::array kRules{"sgd", "adam", "adamw", "rmsprop", "adagrad", "adadelta", "radam", "lion", "lamb"};
  static_assert(kRules.size() == std::variant_size_v<OptimizerRule>);
  return kRules[rule.index()];
}

std::string word_of(const CustomKernel& kernel) { return std::string(kernel.name()); }

std::string operands_text(const std::vector<ProfiledKernel::Operand>& operands) {
  std::string text;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (i > 0) text += ", ";
    if (i == 0 || operands[i].dtype != operands[i - 1].dtype) text += std::string(to_string(operands[i].dtype)) + ' ';
    text += to_string(operands[i].shape);
  }
  return text;
}

}  // namespace tutti
