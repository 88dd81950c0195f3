// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/custom_kernel.h>
#include <tutti/backend/elementwise/call.h>
#include <tutti/backend/formulas/optimizer_rules.h>
#include <tutti/backend/profile.h>

#include <string>
#include <vector>

namespace tutti {

/// The word for an argument that says which of its operations a kernel runs: "add", "log_softmax". Empty: none.
template <class Argument> std::string word_of(const Argument&) { return {}; }
std::string word_of(const ElementwiseCall&);
std::string word_of(Reduction);
std::string word_of(ArgReduction);
std::string word_of(Scatter);
std::string word_of(SoftmaxKind);
std::string word_of(LinearActivation);
std::string word_of(RecurrentGates);
std::string word_of(const RecurrentSteps&);
std::string word_of(Factorization);
std::string word_of(const RandomCall&);
std::string word_of(const OptimizerRule&);
std::string word_of(const CustomKernel&);

/// A kernel's name and the words for its arguments: "elementwise add".
template <class Kernel, class... Arguments> std::string name_of(const Arguments&... arguments) {
  std::string name(Kernel::name);
  const auto add = [&name](const std::string& word) {
    if (!word.empty()) name += ' ' + word;
  };
  (add(word_of(arguments)), ...);
  return name;
}

/// Dtypes and shapes, each dtype where it is another than the one before: "f32 [2, 3], [3, 4], i64 [2]".
std::string operands_text(const std::vector<ProfiledKernel::Operand>&);

}  // namespace tutti
