// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/steps/parameter_groups.h>

#include <array>
#include <cstdint>

namespace tutti {

/// How the learning rate follows the shape of a matrix [rows, columns].
enum class MuonScale : std::uint8_t {
  original,         ///< times sqrt(max(1, rows / columns))
  match_rms_adamw,  ///< times 0.2 sqrt(max(rows, columns)): steps as long as AdamW's, so that its rates can be kept
};

struct MuonOptions {
  double momentum = 0.95;  ///< decay rate of the momentum, in [0, 1)
  bool nesterov = true;
  double weight_decay = 0.1;  ///< decoupled from the gradient; >= 0
  std::array<double, 3> coefficients{3.4445, -4.775, 2.0315};
  double epsilon = 1e-7;  ///< the least norm to divide by; > 0
  int iterations = 5;     ///< Newton-Schulz iterations; > 0
  MuonScale scale = MuonScale::original;
};

std::string options_text(const MuonOptions&);  ///< names and values of all

/// Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024). The momentum m = momentum m +
/// (1 - momentum) g, with nesterov (1 - momentum) g + momentum m, is brought near the closest semi-orthogonal matrix by
/// x = a x + (b x x^T + c (x x^T)^2) x; then p -= learning_rate (scale x + weight_decay p). State: "momentum".
///
/// For matrices, whole ones: other parameters, and by custom the first and last layers, belong to another optimizer
/// (split_by_rank), and a ShardedOptimizer cannot have it.
class Muon : public GroupedOptimizer<MuonOptions> {
 public:
  /// Throws Error for an option outside its range, ShapeError for a parameter that is no matrix.
  Muon(std::vector<Tensor> parameters, double learning_rate, const MuonOptions& = {});
  explicit Muon(const ParameterGroups&);

  bool elementwise() const noexcept override { return false; }
  std::string kind() const override { return "Muon"; }

 protected:
  void update(std::span<const Update>) override;
  std::vector<std::string> state_names(std::size_t group) const override;
};

}  // namespace tutti
