// SPDX-License-Identifier: Apache-2.0
// An operation that is declared and has no reference is noticed here.
#include <doctest/doctest.h>
#include <tutti/tests/autodiff/operations/elementwise_calls.h>
#include <tutti/tests/references/declarations.h>
#include <tutti/tests/references/operations.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <sstream>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Names = std::set<std::string>;

// Declared functions of tensors that have no reference: of graphs, steps of operations, of constants, in place, at
// random.
constexpr const char* kNoOperations =
    "backward grad gradcheck gradgradcheck custom_function elementwise_function gradient gradient_node side_gradient "
    "gather_lines gather_places places_of scatter_add_places scatter_places operator<< record record_binary "
    "record_unary records save save_constant "
    "batch_of lines_of matrix_operand require_matrix require_square rounded_as square_operand symmetric_part "
    "with_kept_axes "
    "in_dtype_of promote_into promote_pair promote_total put_view reduce_loss take_array take_exclusive take_view "
    "weak_value zero_gradient append_steps time_steps reached_leaves unshown_leaves "
    "fill_constant fill_normal fill_truncated_normal fill_uniform initialize_layer orthogonal identity "
    "identity_convolution "
    "kaiming_normal kaiming_uniform xavier_normal xavier_uniform "
    "operator+= operator-= operator*= operator/= "
    "autocast call call_hooked checkpoint hooked_output inspect_gradients inspect_result only_traced "
    "refuse_to_lose_leaf require_part_of_variable arange eye full full_like linspace ones ones_like tensor zeros "
    "zeros_like "
    "exponential gumbel laplace cauchy log_normal randint gamma "
    "bernoulli categorical dropout multinomial normal truncated_normal uniform widened";

// Operations that move elements whatever they are, take integers, or are a line over others. hard_swish of -inf is 0
// here and NaN in PyTorch, whose binary_cross_entropy refuses NaN. Factorizations refuse both, but for qr, of which
// they spread as far as each library lets them. Which parts of a transform of infinities are NaN depends on the order
// of its sums.
constexpr const char* kNoSpecialValues =
    "where select masked_fill literal literal_function reshape permute transpose broadcast_to flatten moveaxis squeeze "
    "expand_dims tile flip roll unfold meshgrid repeat_interleave masked_select slice pad concatenate stack split take "
    "diagonal tril triu to gather embedding slice_assign index "
    "bitwise_and bitwise_or bitwise_xor bitwise_not one_hot pixel_shuffle pixel_unshuffle pad_mode hard_swish "
    "binary_cross_entropy "
    "cholesky qr svd svdvals eigh eigvalsh slogdet fft ifft rfft irfft fftn ifftn rfftn irfftn";

bool is_zero(double value) { return value == 0.0; }
bool is_nan(double value) { return std::isnan(value); }
bool is_infinite(double value) { return std::isinf(value); }

/// The operations with such an element in a floating input of one of their cases.
Names operations_with(bool (*special)(double), const std::vector<ReferenceCase>& cases) {
  Names names;
  for (const ReferenceCase& reference : cases)
    for (const Array& x : reference.inputs)
      if (is_floating(x.dtype()) && std::ranges::any_of(x.cast(DType::f64).to_vector<double>(), special))
        names.insert(reference.operation);
  return names;
}

std::vector<ReferenceCase> all_cases() {
  std::vector<ReferenceCase> all;
  for (const std::string& file : reference_files()) {
    const auto cases = reference_cases(file);
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("cpu");  // files alone

TEST_CASE("references: declarations are found when they are broken over lines, before the first tensor too") {
  const auto found = [](const char* text) {
    std::istringstream lines(text);
    Names names;
    for (const auto& [name, declaration] : declared_functions(lines)) names.insert(name);
    return names;
  };
  CHECK(found("Tensor pad(\n    const Tensor& x);  // (\nTensor exp(const Tensor&);\n") == Names{"exp", "pad"});
  CHECK(found("/// f(\nTensor scatter(const Shape&, std::span<const int> a,  // first (\n               const "
              "Tensor&);\n") == Names{"scatter"});
  CHECK(found("Array make(std::span<const int> lengths,\n           double value);\n").empty());
  CHECK(found("class Net {\n  Tensor forward(\n      const Tensor&);\n};\n").empty());
}

TEST_CASE("references: every operation that the headers declare is in the table") {
  std::istringstream others(kNoOperations);
  std::set<std::string> listed{std::istream_iterator<std::string>(others), {}};
  for (const Operation& operation : all_operations()) {
    std::istringstream names(operation.declared);
    listed.insert(std::istream_iterator<std::string>(names), {});
  }
  const auto declared = declared_functions();
  REQUIRE(declared.size() > 50);
  for (const auto& [name, declaration] : declared)
    CHECK_MESSAGE(listed.count(name) > 0, name, " is declared and has no reference: see docs/project/references.md");
}

TEST_CASE("references: every operation of the table has cases") {
  std::map<std::string, int> cases;
  for (const ReferenceCase& reference : all_cases()) ++cases[reference.operation];
  for (const Operation& operation : all_operations())
    CHECK_MESSAGE(cases[operation.name] > 0, operation.name, " has no case: see docs/project/references.md");
}

TEST_CASE("references: every elementwise operation has gradients in f32 and f64, and zeros and NaN among its inputs") {
  std::map<std::string, std::set<DType>> differentiated;
  const std::vector<ReferenceCase> cases = all_cases();
  for (const ReferenceCase& reference : cases)
    if (!reference.gradients.empty()) differentiated[reference.operation].insert(reference.gradients[0].dtype());
  const Names with_zero = operations_with(is_zero, cases);
  const Names with_nan = operations_with(is_nan, cases);
  elementwise::AllOperations::for_each([&]<class O>(std::type_identity<O>) {
    const std::string name = O::name;
    CAPTURE(name);
    if constexpr (O::domain != elementwise::Domain::bits)
      CHECK_MESSAGE((with_zero.contains(name) && with_nan.contains(name)), name);
    if constexpr (kDifferentiable<O>) {
      CHECK(differentiated[O::name].count(DType::f32) == 1);
      CHECK(differentiated[O::name].count(DType::f64) == 1);
    }
  });
}

TEST_CASE("references: operations that compute have NaN and infinities among their inputs") {
  const std::vector<ReferenceCase> cases = all_cases();
  const Names with_nan = operations_with(is_nan, cases);
  const Names with_infinity = operations_with(is_infinite, cases);
  std::istringstream others(kNoSpecialValues);
  const Names without{std::istream_iterator<std::string>(others), {}};
  for (const Operation& operation : all_operations())
    if (!without.contains(operation.name))
      CHECK_MESSAGE((with_nan.contains(operation.name) && with_infinity.contains(operation.name)), operation.name);
}

TEST_SUITE_END();
