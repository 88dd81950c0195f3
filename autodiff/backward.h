// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/gradient_observer.h>
#include <tutti/autodiff/tensor.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

namespace tutti {

struct BackwardRecord;

struct BackwardOptions {
  Tensor gradient{};   ///< dL/d(root), the root's shape; undefined: 1, and the root must have one element
  double scale = 1.0;  ///< multiplies the root gradient; exactly 0 sends null gradients: everything is final, as zeros
  double weight =
      1.0;  ///< the same, but only attached parameters keep the factor: their owner divides by the sum of all weights
  bool retain_graph = false;             ///< keep what the graph saved, for another backward through it
  bool create_graph = false;             ///< gradients carry a graph of their own; refused together with an observer
  GradientObserver* observer = nullptr;  ///< hears of attached parameters; the backward is then "synchronised"
  const void* owner = nullptr;           ///< identity of whose attachments the observer answers for
  BackwardRecord* record = nullptr;      ///< filled for captured steps, on a thread that captures
};

/// Accumulates dL/dp into the gradient slot of every leaf p that requires one. Runs on the calling thread; backwards of
/// different devices run concurrently. One traversal first counts the contributions that each leaf will receive; when
/// the last one has arrived, null or not, the gradient is final and the observer hears of it once.
///
/// Throws AutodiffError, before anything is accumulated, when: the root has no graph; a buffer it needs was freed by an
/// earlier backward; it would reach an attached parameter while neither an observer for its owner nor a
/// LocalAccumulation scope is active (names the parameter); a synchronised backward would add to a gradient that is
/// settled (names the parameter: zero_grad was forgotten); attached parameters live on several devices; a leaf
/// with sparse gradients would get a dense one (names it and the operations).
/// Whenever it throws, also before on_backward_begin, the observer gets on_backward_failed first: peers hear the cause.
void backward(const Tensor& root, const BackwardOptions& = {});

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;  ///< the results can be differentiated again; implies retain_graph
  bool allow_unused = false;  ///< an input without a path gives an undefined tensor instead of AutodiffError
  /// dL/d(output) for each output, of its shape, type and device; an undefined one, or no list at all: ones.
  std::vector<Tensor> gradients{};
};

/// dL/d(inputs), one per input, for L = the sum of all outputs' elements, each times its gradient in the options.
/// Touches no gradient slot and is never observed: it gives local gradients also of attached parameters, and dense ones
/// (differentiable, as large as the table) also of leaves with sparse gradients.
std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs, const GradOptions& = {});
std::vector<Tensor> grad(const Tensor& output, std::span<const Tensor> inputs, const GradOptions& = {});
inline std::vector<Tensor> grad(const Tensor& output, std::initializer_list<Tensor> inputs,
                                const GradOptions& options = {}) {
  return grad(output, std::span(inputs.begin(), inputs.size()), options);
}
inline std::vector<Tensor> grad(std::initializer_list<Tensor> outputs, std::initializer_list<Tensor> inputs,
                                const GradOptions& options = {}) {
  return grad(std::span(outputs.begin(), outputs.size()), std::span(inputs.begin(), inputs.size()), options);
}

/// Lets backwards on its thread accumulate into the attached parameters of `owner`, unobserved, while it lives; root
/// gradients are multiplied by `weight`, as by BackwardOptions'. Used by `no_sync`. Scopes nest; the innermost counts.
class LocalAccumulation {
 public:
  [[nodiscard]] LocalAccumulation(const void* owner, double weight);
  ~LocalAccumulation();
  LocalAccumulation(const LocalAccumulation&) = delete;
  LocalAccumulation& operator=(const LocalAccumulation&) = delete;

  bool used() const noexcept { return used_; }  ///< a backward ran under it
  /// One threw after it had begun to accumulate: of its gradients some are in the slots, some are not.
  bool failed_midway() const noexcept { return failed_midway_; }

 private:
  friend void backward(const Tensor&, const BackwardOptions&);
  friend double weight_of(const BackwardOptions&);
  friend void replay_backward(const BackwardRecord&, const BackwardOptions&, std::size_t,
                              const std::function<void(std::size_t, std::size_t)>&);
  const void* owner_;
  double weight_;
  bool used_ = false;
  bool failed_midway_ = false;
  LocalAccumulation* outer_;
};

}  // namespace tutti
