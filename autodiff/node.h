// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/anomaly.h>
#include <tutti/autodiff/scope.h>
#include <tutti/autodiff/tensor.h>
#include <tutti/autodiff/tensor/hooks.h>
#include <tutti/backend/error.h>
#include <tutti/backend/memory/thread_cache.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

/// A value kept for backward: the array alone. Its place in the graph is found again through the node, so that a saved
/// output makes no reference cycle.
struct SavedTensor {
  static constexpr int kOutput = -1;
  static constexpr int kConstant = -2;

  SavedTensor() = default;
  SavedTensor(Array array, int from = kConstant)
      : value(std::move(array)), source(from), version(value.defined() ? value.storage()->version() : 0) {}

  Array value;                ///< gives shape and type; its elements are read by way of `Node::restore`
  int source = kConstant;     ///< position among the node's inputs, kOutput, or kConstant
  std::uint32_t version = 0;  ///< version of its storage when it was saved
};

class BackwardRun;

/// The receiver of a node's gradients for its inputs.
class InputGradients {
 public:
  InputGradients(const Node& node, BackwardRun& run, std::span<Tensor> gradients, std::span<const bool> wanted)
      : node_(node), run_(run), gradients_(gradients), wanted_(wanted) {}
  bool wanted(std::size_t input) const { return wanted_[input]; }
  void set(std::size_t input, Tensor gradient) { gradients_[input] = std::move(gradient); }
  /// The memory where this gradient would be welcome, of the input's shape; undefined: anywhere. Never defined while
  /// gradients are recorded.
  Array destination(std::size_t input) const;
  /// The sum of what this input got from others so far, handed over: who takes it adds to it and gives it to `set`, in
  /// place of a gradient that is zero elsewhere. Undefined: nothing yet. Never defined while gradients are recorded, or
  /// anomalies looked for in each gradient by itself.
  Tensor take_sum(std::size_t input);
  /// True if this input is a leaf that takes sparse gradients; `set_rows` then replaces `set`.
  bool wants_rows(std::size_t input) const;
  void set_rows(std::size_t input, SparseGradient);

 private:
  const Node& node_;
  BackwardRun& run_;
  std::span<Tensor> gradients_;
  std::span<const bool> wanted_;
};

/// One recorded operation with one output, or a leaf. Its name is a literal, or the derived class holds it. Edges lead
/// to the nodes that made its inputs.
class Node {
 public:
  explicit Node(std::string_view name, std::span<const Tensor> inputs);
  virtual ~Node();  ///< releases long chains iteratively
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  std::string_view name() const noexcept { return name_; }
  // Names for errors. title: the operation that was called, which may be composed of others, and the Scope that it was
  // called in, "norm in encoder". step_title: this node of it, "norm (sqrt) in encoder". origin: " made by" and the
  // title; of a leaf "", or " made in" its Scope.
  std::string title() const;
  std::string step_title() const;
  std::string origin() const;
  std::uint64_t sequence() const noexcept { return sequence_; }  ///< grows with creation, per thread
  std::size_t input_count() const noexcept { return count_; }
  const std::shared_ptr<Node>& input(std::size_t i) const { return i < kInline ? inline_[i] : more_[i - kInline]; }

  /// Adds dL/d(input) of each wanted input, from dL/d(output). Runs with recording on exactly if the gradients are to
  /// be differentiable. A gradient left undefined counts as null.
  virtual void backward(const Tensor& gradient, InputGradients&) = 0;
  virtual void release_saved() = 0;
  virtual bool released() const noexcept = 0;
  virtual bool is_leaf() const noexcept { return false; }
  /// True if backward may read what the node holds no reference to: the memory of a value is otherwise known to be in
  /// use by its count of references.
  virtual bool reads_unknown() const noexcept { return false; }
  /// True if the output is a view of the input; then `view` makes it of memory that is laid out as the input.
  virtual bool is_view() const noexcept { return false; }
  virtual Array view(const Array&) const { return {}; }
  /// True if it can give a sparse gradient to its first input.
  virtual bool gives_rows() const noexcept { return false; }

  /// The saved value with its place in the graph. `self` is this node. Throws AutodiffError, naming who saved it and
  /// who wrote, if it was written to since.
  Tensor restore(const SavedTensor&, const std::shared_ptr<Node>& self) const;
  void require_unwritten(const SavedTensor&) const;  ///< the same check alone

  HookHandle add_hook(GradientHook);
  bool has_hooks() const noexcept { return hooks_ && !hooks_->empty(); }
  Tensor hooked(Tensor gradient) const;  ///< gradient of this node's output as the hooks leave it

 private:
  friend class BackwardRun;
  static constexpr std::size_t kInline = 3;

  // The node's place in the run that visits it; runs nest, each restores what it found.
  struct Mark {
    std::uint64_t run = 0;
    std::uint32_t visit = 0;
  };

  std::string_view name_;
  std::string_view called_;  // name of the OperationScope around it, if there is one
  std::uint64_t sequence_;
  std::size_t count_;
  std::array<std::shared_ptr<Node>, kInline> inline_;
  CachedVector<std::shared_ptr<Node>> more_;
  std::shared_ptr<HookList<GradientHook>> hooks_;  // null: none ever
  std::shared_ptr<const Site> site_;
  Mark mark_;
};

/// A tensor that collects a gradient.
class LeafNode final : public Node {
 public:
  LeafNode() : Node("leaf", {}) {}
  void backward(const Tensor&, InputGradients&) override {}
  void release_saved() override {}
  bool released() const noexcept override { return false; }
  bool is_leaf() const noexcept override { return true; }

  GradientSlot slot;
  Device device;
  Shape shape;
  DType dtype = DType::f32;
};

/// A node whose gradient is a callable `void(const Restore&, const Tensor& dy, InputGradients&)`; what the callable
/// holds is what the node saved: arrays or detached tensors, never a parameter itself, whose value may change. That of
/// a view also has a `view(const Array&)`; one that can give sparse gradients has a static `gives_rows`.
template <class Gradient> class RecordedNode final : public Node,
                                                     public std::enable_shared_from_this<RecordedNode<Gradient>> {
 public:
  RecordedNode(std::string_view name, std::span<const Tensor> inputs, Gradient gradient)
      : Node(name, inputs), gradient_(std::move(gradient)) {}

  void backward(const Tensor& dy, InputGradients& gradients) override {
    const auto self = this->shared_from_this();
    (*gradient_)([&](const SavedTensor& saved) { return this->restore(saved, self); }, dy, gradients);
  }
  void release_saved() override { gradient_.reset(); }
  bool released() const noexcept override { return !gradient_; }
  bool is_view() const noexcept override {
    return requires(const Gradient& gradient, const Array& array) { gradient.view(array); };
  }
  Array view(const Array& input) const override {
    if constexpr (requires { gradient_->view(input); }) return gradient_ ? gradient_->view(input) : Array();
    return {};
  }
  bool gives_rows() const noexcept override {
    return requires { Gradient::gives_rows; };
  }

 private:
  std::optional<Gradient> gradient_;
};

namespace detail {
/// Lets go of a node. Those whose last reference goes with another's destruction wait until that has ended, so that
/// chains of any length take constant stack, whatever holds them: edges, or functions that hold tensors.
void drop_in_turn(std::shared_ptr<Node>&&);
bool only_traced(std::span<const Tensor> inputs);  // true if a checkpoint's first run wants to know these and no more
std::string step_title(std::string_view called, std::string_view name);  // "norm (sqrt)"; one name if they are the same
}  // namespace detail

/// True if an operation on these inputs is to be recorded.
inline bool records(std::span<const Tensor> inputs) {
  if (!grad_enabled()) return false;
  for (const Tensor& input : inputs)
    if (input.requires_grad()) return !detail::only_traced(inputs);
  return false;
}

/// Saves input number `position`.
inline SavedTensor save(const Tensor& input, int position) { return {input.array(), position}; }

/// Saves what needs no gradient: a mask, an index.
inline SavedTensor save_constant(const Tensor& value) { return {value.array()}; }

/// The result of an operation: recorded with its gradient if any input requires one. The gradient is built by
/// `make_gradient()` only then, so that nothing is saved in vain.
template <class MakeGradient>
Tensor record(std::string_view name, Array value, std::span<const Tensor> inputs, MakeGradient make_gradient) {
  if (detects_anomalies()) detail::inspect_result(name, value, inputs);
  if (!records(inputs)) return Tensor(std::move(value));
  using Gradient = decltype(make_gradient());
  return Tensor::from_node(std::move(value), make_cached<RecordedNode<Gradient>>(name, inputs, make_gradient()));
}

}  // namespace tutti
