// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/binary_loss.h>

#include <tutti/autodiff/anomaly.h>
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

#include <utility>

namespace tutti {
namespace {

void check_operands(std::string_view operation, std::string_view what, const Tensor& x, const Tensor& targets) {
  if (x.shape() != targets.shape())
    raise<ShapeError>("[{}] {} {} and targets {} differ in shape", operation, what, to_string(x.shape()),
                      to_string(targets.shape()));
  if (!is_floating(x.dtype()) || !is_floating(targets.dtype()))
    raise<DTypeError>("[{}] needs floating {} and targets, got {} and {}", operation, what, to_string(x.dtype()),
                      to_string(targets.dtype()));
}

/// x times a factor that must not make it larger; itself without one.
Tensor weighted(std::string_view operation, std::string_view what, const Tensor& x, const Tensor& factor) {
  if (!factor.defined()) return x;
  const Tensor product = x * factor;
  if (product.shape() != x.shape())
    raise<ShapeError>("[{}] {} {} cannot be broadcast to {}", operation, what, to_string(factor.shape()),
                      to_string(x.shape()));
  return product;
}

/// While one lives, DetectAnomaly does not look: for what is mended before anyone sees it.
class Uninspected {
 public:
  Uninspected() : outer_(std::exchange(detail::anomaly, nullptr)) {}
  ~Uninspected() { detail::anomaly = outer_; }
  Uninspected(const Uninspected&) = delete;
  Uninspected& operator=(const Uninspected&) = delete;

 private:
  const AnomalyOptions* outer_;
};

Tensor bounded_log(const Tensor& x) {
  const Uninspected log_of_0;
  return maximum(log(x), Tensor(-100.0));
}

/// One node, since the gradient of a bounded logarithm at 0 is no number.
Tensor record_binary(const Tensor& p, const Tensor& t) {
  Array value;
  {
    const NoGrad no_graph;
    value = (-(t * bounded_log(p) + (1 - t) * bounded_log(1 - p))).array();
  }
  const Tensor inputs[] = {p, t};
  return record("binary_cross_entropy", std::move(value), inputs, [&] {
    return
        [saved_p = save(p, 0), saved_t = save(t, 1)](const auto& restore, const Tensor& dy, InputGradients& gradients) {
          const Tensor p = restore(saved_p);
          const Tensor t = restore(saved_t);
          if (gradients.wanted(0)) gradients.set(0, dy * (p - t) / maximum(p * (1 - p), Tensor(1e-12)));
          if (gradients.wanted(1)) gradients.set(1, dy * (bounded_log(1 - p) - bounded_log(p)));
        };
  });
}

}  // namespace

Tensor binary_cross_entropy_with_logits(const Tensor& given_logits, const Tensor& targets,
                                        const BinaryLogitsOptions& options) {
  constexpr std::string_view kName = "binary_cross_entropy_with_logits";
  const OperationScope scope(kName, given_logits, targets, options.weight, options.pos_weight);
  check_operands(kName, "logits", given_logits, targets);
  const Tensor logits = autocast(kName, given_logits);
  const Tensor positive = weighted(kName, "pos_weight", targets * softplus(-logits), options.pos_weight);
  const Tensor losses = positive + (1 - targets) * softplus(logits);
  return reduce_loss(kName, weighted(kName, "weight", losses, options.weight), options.reduction);
}

Tensor binary_cross_entropy(const Tensor& given, const Tensor& targets, const BinaryLossOptions& options) {
  constexpr std::string_view kName = "binary_cross_entropy";
  const OperationScope scope(kName, given, targets, options.weight);
  check_operands(kName, "probabilities", given, targets);
  const Tensor probabilities = autocast(kName, given);
  const DType dtype = promote(probabilities.dtype(), targets.dtype());
  const Tensor losses = record_binary(cast(probabilities, dtype), cast(targets, dtype));
  return reduce_loss(kName, weighted(kName, "weight", losses, options.weight), options.reduction);
}

}  // namespace tutti
