// SPDX-License-Identifier: Apache-2.0
// Steps of L-BFGS beside PyTorch's, with and without its line search.
#include <doctest/doctest.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/optim/lbfgs.h>
#include <tutti/tests/references/match.h>
#include <tutti/tests/references/reference_file.h>
#include <tutti/tests/test_devices.h>

#include <cmath>

using namespace tutti;
using namespace tutti::testing;

namespace {

Tensor rosenbrock(const Tensor& x) {
  const Tensor before = slice(x, 0, 0, x.length(0) - 1);
  const Tensor behind = slice(x, 0, 1, x.length(0));
  return sum(100 * square(behind - square(before)) + square(1 - before));
}

Tensor logistic(const Tensor& x, const Tensor& matrix) {
  return mean(softplus(reshape(matmul(matrix, reshape(x, {-1, 1})), {-1}))) + 0.05 * sum(square(x));
}

LbfgsOptions options_of(const Attributes& a) {
  return {.iterations = static_cast<int>(a.integer("iterations")),
          .evaluations = static_cast<int>(a.integer("evaluations", 0)),
          .tolerance_gradient = a.number("tolerance_gradient", 1e-7),
          .tolerance_change = a.number("tolerance_change", 1e-9),
          .history = static_cast<int>(a.integer("history", 100)),
          .strong_wolfe = a.flag("strong_wolfe")};
}

}  // namespace

TEST_CASE("references: L-BFGS") {
  const auto arrays = reference_arrays("lbfgs");
  for (const auto& [name, attributes] : reference_attributes("lbfgs")) {
    CAPTURE(name);
    const std::string dtype = attributes.text("dtype");
    std::vector<Tensor> parameters;
    for (const char* place : {".start0", ".start1"})
      parameters.emplace_back(arrays.at(dtype + place).to(test_device()).copy(), true);
    const Tensor matrix(arrays.at(dtype + ".matrix").to(test_device()));
    Lbfgs optimizer(parameters, attributes.number("rate"), options_of(attributes));
    const auto closure = [&] {
      optimizer.zero_grad();
      const Tensor flat = concatenate({flatten(parameters[0]), parameters[1]});
      const Tensor loss = attributes.text("function") == "rosenbrock" ? rosenbrock(flat) : logistic(flat, matrix);
      backward(loss);
      return loss;
    };
    const auto losses = arrays.at(name + ".losses").cast(DType::f64).to_vector<double>();
    const double tolerance = dtype == "f64" ? 1e-8 : 1e-4;  // rounding is amplified at each iteration
    for (std::size_t step = 0; step < losses.size(); ++step) {
      CAPTURE(step);
      CHECK(optimizer.step(closure) == doctest::Approx(losses[step]).epsilon(tolerance));
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const auto row = static_cast<std::int64_t>(step);
        const Array expected = arrays.at(name + ".p" + std::to_string(i)).slice(0, row, row + 1).squeeze(0).copy();
        const std::string text = difference(expected, parameters[i].array(), {.relative = tolerance});
        CHECK_MESSAGE(text.empty(), text);
      }
    }
  }
}
