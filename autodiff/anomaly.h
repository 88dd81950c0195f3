// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <span>
#include <string_view>

namespace tutti {

class Node;

struct AnomalyOptions {
  bool infinities = true;  ///< false: NaN alone
};

/// Looks for NaN and infinities while it lives: the first operation on its thread whose result (forward) or gradient
/// (backward) has one that its operands have not throws AutodiffError, which names it and, where there is a Scope, the
/// place that it was recorded at. What comes in from outside (a mask of -inf, a label) is nobody's fault. Waits for the
/// device after every operation: for looking for an error, not for training. Sequential names its layers meanwhile.
class DetectAnomaly {
 public:
  [[nodiscard]] explicit DetectAnomaly(const AnomalyOptions& = {});
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

 private:
  const AnomalyOptions* outer_;
  AnomalyOptions options_;
};

namespace detail {
extern constinit thread_local const AnomalyOptions* anomaly;
void inspect_result(std::string_view operation, const Array& result, std::span<const Tensor> inputs);
void inspect_gradients(const Node&, const Tensor& gradient, std::span<const Tensor> input_gradients);
}  // namespace detail

/// True if a DetectAnomaly lives on the calling thread.
inline bool detects_anomalies() noexcept { return detail::anomaly != nullptr; }

}  // namespace tutti
