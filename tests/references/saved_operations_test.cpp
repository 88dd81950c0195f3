// SPDX-License-Identifier: Apache-2.0
// Every operation as a file of ONNX: what its file computes is compared when it is saved.
#include <doctest/doctest.h>
#include <tutti/onnx/save_onnx.h>
#include <tutti/testing/device_comparison.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/references/operations.h>

#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr Layout kLayouts[] = {Layout::contiguous, Layout::spaced, Layout::transposed, Layout::shifted};

/// A module without members.
struct NoMembers : Module {
  void visit(MemberVisitor&) override {}
};

/// Why the case cannot be saved; empty: it was.
std::string complaint(const std::string& path, const Operation& operation, const ReferenceCase& reference,
                      Layout layout) {
  std::vector<Tensor> inputs;
  std::vector<OnnxAxes> axes;
  for (const Array& input : reference.inputs) {
    inputs.emplace_back(input);
    axes.emplace_back();
  }
  const TensorFunction run = [&](std::span<const Tensor> x) {
    std::vector<Tensor> placed;
    for (const Tensor& each : x) placed.emplace_back(laid_out(each.array(), layout, cpu()));
    return std::vector<Tensor>(operation.run({placed, reference.attributes}));
  };
  NoMembers none;
  try {
    save_onnx(path, none, run, inputs, {.axes = axes});
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("references: operations are saved as files of ONNX, or refused by name") {
  // Without operators in ONNX; of results whose shape depends on values; whose models draw their first weights.
  const std::set<std::string> without{"bincount",
                                      "cholesky",
                                      "cummax",
                                      "cummin",
                                      "determinant",
                                      "eigh",
                                      "eigvalsh",
                                      "erfinv",
                                      "fft",
                                      "fftn",
                                      "ifft",
                                      "ifftn",
                                      "inverse",
                                      "irfft",
                                      "irfftn",
                                      "qr",
                                      "rfft",
                                      "rfftn",
                                      "slogdet",
                                      "solve",
                                      "svd",
                                      "svdvals",
                                      "solve_triangular",
                                      "argwhere",
                                      "unique",
                                      "masked_select",
                                      "repeat_interleave",
                                      "gru",
                                      "lstm",
                                      "rnn"};
  const TemporaryFolder folder(folder_in_memory());
  std::map<std::string, Operation> operations;
  for (const Operation& operation : all_operations()) operations.emplace(operation.name, operation);
  int saved = 0;
  std::set<std::string> refused;
  std::size_t number = 0;
  for (const std::string& file : reference_files())
    for (const ReferenceCase& reference : reference_cases(file)) {
      if (reference.inputs.empty()) continue;
      const Layout layout = kLayouts[number++ % std::size(kLayouts)];
      const std::string said =
          complaint(folder.file("model.onnx"), operations.at(reference.operation), reference, layout);
      if (said.empty()) {
        ++saved;
        continue;
      }
      refused.insert(reference.operation);
      CHECK_MESSAGE(without.contains(reference.operation), reference.name, ", ", to_string(layout), ": ", said);
    }
  CHECK(saved > 4100);
  CHECK(refused == without);
}

TEST_SUITE_END();
