// SPDX-License-Identifier: Apache-2.0
// Every operation against what NumPy and PyTorch give, forward and gradients, for each way the inputs may lie in
// memory.
#include <doctest/doctest.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/testing/device_comparison.h>
#include <tutti/tests/references/match.h>
#include <tutti/tests/references/operations.h>
#include <tutti/tests/test_devices.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr Layout kLayouts[] = {Layout::contiguous, Layout::spaced, Layout::transposed, Layout::shifted};

/// sum(a[0] b[0]) + sum(a[1] b[1]) + ..., of those that are there.
Tensor product(const std::vector<Tensor>& a, const Arrays& b) {
  Tensor total;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (!a[i].defined() || !a[i].requires_grad()) continue;
    const Tensor part = sum(a[i] * Tensor(b[i].to(test_device())));
    total = total.defined() ? total + part : part;
  }
  return total;
}

std::vector<Tensor> gradients(const Tensor& root, const std::vector<Tensor>& leaves, bool create_graph) {
  std::vector<Tensor> found(leaves.size());
  if (root.defined()) found = grad(root, leaves, {.create_graph = create_graph, .allow_unused = true});
  return found;
}

/// Notes the differences of one case in one layout.
class Comparison {
 public:
  Comparison(const Operation& operation, const ReferenceCase& reference, Layout layout)
      : operation_(operation), reference_(reference), layout_(layout) {
    const Attributes& attributes = reference.attributes;
    tolerance_ = {.each = attributes.flag("each"), .signed_zeros = attributes.flag("signed_zeros")};
  }

  std::vector<std::string> differences() {
    try {
      compare();
    } catch (const std::exception& error) {
      note(fmt::format("threw {}", error.what()));
    }
    return differences_;
  }

 private:
  void compare() {
    Call call{{}, reference_.attributes};
    std::vector<Tensor> leaves;
    const Axes constants = reference_.attributes.integers("constants");
    for (const Array& input : reference_.inputs) {
      const auto place = static_cast<std::int64_t>(call.x.size());
      const bool constant = std::find(constants.begin(), constants.end(), place) != constants.end();
      call.x.emplace_back(laid_out(input, layout_, test_device()),
                          is_floating(input.dtype()) && !constant && !reference_.gradients.empty());
      if (call.x.back().requires_grad()) leaves.push_back(call.x.back());
    }
    const Results results = operation_.run(call);
    compare("y", reference_.results, results, tolerance_);
    if (reference_.gradients.empty()) return;
    std::vector<Tensor> differentiable;
    for (const Tensor& result : results)
      if (is_floating(result.dtype())) differentiable.push_back(result);
    const bool twice = !reference_.second_gradients.empty();
    const auto first = gradients(product(differentiable, reference_.upstream), leaves, twice);
    tolerance_.signed_zeros = false;
    compare("g", reference_.gradients, first, tolerance_);
    if (!twice) return;
    tolerance_.each = false;  // terms of second derivatives cancel
    const auto second = gradients(product(first, reference_.directions), leaves, false);
    compare("h", reference_.second_gradients, second, tolerance_);
  }

  void compare(std::string_view kind, const Arrays& expected, const std::vector<Tensor>& found, Tolerance tolerance) {
    if (expected.size() != found.size()) return note(fmt::format("{} {}, not {}", found.size(), kind, expected.size()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Array value =
          found[i].defined() ? found[i].array() : Array::zeros(expected[i].shape(), expected[i].dtype(), test_device());
      tolerance.relative = relative(expected[i].dtype(), kind);
      const std::string text = difference(expected[i], value, tolerance);
      if (!text.empty()) note(fmt::format("{}{} {}", kind, i, text));
    }
  }

  /// Gradients of narrow types may be made of results that were rounded.
  double relative(DType dtype, std::string_view kind) const {
    const double least = reference_.attributes.number("tolerance", 0);
    return std::max(least, tolerance_of(dtype) * (is_narrow(dtype) && kind != "y" ? 2 : 1));
  }

  void note(const std::string& text) {
    std::string inputs;
    for (const Array& input : reference_.inputs)
      inputs += fmt::format(" {} {}", to_string(input.dtype()), to_string(input.shape()));
    differences_.push_back(fmt::format("{} of{}, {}: {}", reference_.name, inputs, to_string(layout_), text));
  }

  const Operation& operation_;
  const ReferenceCase& reference_;
  Layout layout_;
  Tolerance tolerance_;
  std::vector<std::string> differences_;
};

void compare_file(std::string_view file) {
  std::map<std::string, Operation> operations;
  for (const Operation& operation : all_operations()) operations.emplace(operation.name, operation);
  for (const ReferenceCase& reference : reference_cases(file)) {
    const auto found = operations.find(reference.operation);
    CHECK_MESSAGE(found != operations.end(), "no operation for ", reference.name);
    if (found == operations.end()) continue;
    for (const Layout layout : kLayouts) {
      const auto differences = Comparison(found->second, reference, layout).differences();
      for (const std::string& text : differences) CHECK_MESSAGE(false, text);
      if (!differences.empty()) break;
    }
  }
}

}  // namespace

TEST_CASE("references: operations") {
  for (const std::string& file : reference_files()) {
    SUBCASE(file.c_str()) { compare_file(file); }
  }
}
