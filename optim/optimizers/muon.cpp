// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/muon.h>

#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/optim/steps/blend.h>
#include <tutti/optim/steps/option_checks.h>

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

void check_muon_options(const MuonOptions& options) {
  check_share("Muon", "momentum", options.momentum);
  check_not_negative("Muon", "weight_decay", options.weight_decay);
  check_positive("Muon", "epsilon", options.epsilon);
  if (options.iterations < 1) raise("[Muon] iterations must be positive, got {}", options.iterations);
  for (const double coefficient : options.coefficients)
    if (!std::isfinite(coefficient)) raise("[Muon] the coefficients must be finite, got {}", coefficient);
}

double scale_of(MuonScale scale, const Shape& shape) {
  const auto rows = static_cast<double>(shape[0]);
  const auto columns = static_cast<double>(shape[1]);
  if (scale == MuonScale::match_rms_adamw) return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, rows / columns));
}

// The products are of the shorter side's size.
Array orthogonalised(const Array& matrix, const MuonOptions& options) {
  const bool tall = matrix.length(0) > matrix.length(1);
  const auto [a, b, c] = options.coefficients;
  const Array least = Array::full({}, options.epsilon, matrix.dtype(), matrix.device());
  const Array norm = apply(elementwise::Sqrt{}, reduce(Reduction::sum_of_squares, matrix, {}));
  Array x =
      apply(elementwise::Divide{}, tall ? matrix.transpose() : matrix, apply(elementwise::Maximum{}, norm, least));
  for (int i = 0; i < options.iterations; ++i) {
    const Array gram = matmul(x, x.transpose());
    const Array polynomial = matmul(gram, gram);
    blend(polynomial, c, gram, b);
    const Array change = matmul(polynomial, x);
    blend(change, 1.0, x.contiguous(), a);
    x = change;
  }
  return (tall ? x.transpose() : x).contiguous();
}

}  // namespace

std::string options_text(const MuonOptions& options) {
  const auto& [momentum, nesterov, weight_decay, coefficients, epsilon, iterations, scale] = options;
  return fmt::format(
      "momentum {}, nesterov {}, weight_decay {}, coefficients {} {} {}, epsilon {}, iterations {}, scale {}", momentum,
      nesterov, weight_decay, coefficients[0], coefficients[1], coefficients[2], epsilon, iterations,
      scale == MuonScale::original ? "original" : "match_rms_adamw");
}

Muon::Muon(const ParameterGroups& groups) : GroupedOptimizer(groups, check_muon_options) {
  for (std::size_t i = 0; i < parameters().size(); ++i)
    if (parameters()[i].rank() != 2)
      raise<ShapeError>(
          "[Muon] parameter {} is {}: only whole matrices can be made orthogonal; give others to another "
          "optimizer",
          i, to_string(parameters()[i].shape()));
}
Muon::Muon(std::vector<Tensor> parameters, double learning_rate, const MuonOptions& options)
    : Muon(ParameterGroups{{std::move(parameters), learning_rate, options}}) {}

void Muon::update(std::span<const Update> updates) {
  const MuonOptions& options = options_of(updates.front());
  const double rate = rate_of(updates.front());
  for (const auto& [position, parameter, gradient, state] : updates) {
    if (parameter.size() == 0) continue;
    const Array& momentum = state->arrays.front().second;
    blend(momentum, options.momentum, gradient, 1.0 - options.momentum);
    Array direction = momentum;
    if (options.nesterov) {
      direction = gradient.copy();
      blend(direction, 1.0 - options.momentum, momentum, options.momentum);
    }
    blend(parameter, 1.0 - rate * options.weight_decay, orthogonalised(direction, options),
          -rate * scale_of(options.scale, parameter.shape()));
  }
}

std::vector<std::string> Muon::state_names(std::size_t) const { return {"momentum"}; }

}  // namespace tutti
