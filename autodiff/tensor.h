// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor/axes.h>
#include <tutti/autodiff/tensor/gradient_slot.h>
#include <tutti/autodiff/tensor/hooks.h>
#include <tutti/backend/array.h>

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tutti {

class Index;
class Node;
class Tensor;

/// Returns what takes the gradient's place, of its shape, type and device; undefined: nothing does.
using GradientHook = std::function<Tensor(const Tensor& gradient)>;

/// A number that stands beside a tensor.
template <class T>
concept Literal = std::is_arithmetic_v<T>;

/// An array and, where needed, its place in the graph of operations that made it: what users write models with. A cheap
/// handle; copies name the same tensor. Distinct tensors may be used from distinct threads, and one be read by several
/// that record no graph, while nobody writes to it; a graph, with all tensors in it, belongs to one thread at a time. A
/// graph that is never back-propagated is freed with its last tensor.
class Tensor {
 public:
  Tensor() = default;  ///< undefined
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor&) & = default;  ///< the variable names the other tensor
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// x[0] = 1, x[{all, range(0, 2)}] = y: writes into x in place, as copy_ with its errors. AutodiffError on the left
  /// of anything but brackets without tensors, since the write would be lost.
  void operator=(const Tensor& value) && { write_through(value); }
  template <Literal T> void operator=(T value) && { write_through(Tensor(Scalar(value))); }
  ~Tensor() = default;
  explicit Tensor(Array value, bool requires_grad = false);  ///< a leaf
  /// A rank-0 constant without a dtype or device of its own: beside another operand it takes that one's, unless it
  /// would lose its kind (a floating constant beside integers gives f32).
  explicit Tensor(Scalar);
  template <Literal T> explicit Tensor(T value) : Tensor(Scalar(value)) {}

  bool defined() const noexcept { return impl_ != nullptr; }
  const Array& array() const;  ///< the value; shares its storage. Throws AutodiffError if undefined
  const Shape& shape() const { return array().shape(); }
  std::size_t rank() const { return array().rank(); }
  std::int64_t length(std::int64_t axis) const { return array().length(axis); }
  std::int64_t size() const { return array().size(); }  ///< number of elements
  std::int64_t size(std::int64_t axis) const { return length(axis); }
  std::int64_t numel() const { return size(); }
  std::int64_t dim() const { return static_cast<std::int64_t>(rank()); }
  DType dtype() const { return array().dtype(); }
  Device device() const { return array().device(); }
  bool is_weak_scalar() const noexcept;  ///< made from a literal
  bool is_same(const Tensor& other) const noexcept { return impl_ == other.impl_; }
  const void* identity() const noexcept { return impl_.get(); }

  /// The only element, converted to T; ShapeError unless there is exactly one. Waits for the device's compute stream.
  template <class T> T item() const { return array().template item<T>(); }
  double item() const;  ///< the same; DTypeError for an integer beyond 2^53, which may be no double
  /// The elements, row-major, on the host; DTypeError unless T is their type. Waits for the device's compute stream.
  template <class T> std::vector<T> to_vector() const { return array().template to_vector<T>(); }

  // --- operations that read well behind a tensor (autodiff/operations.h), and indices (autodiff/tensor/indexing.h):
  // x[3], x[{all, range(0, 4), newaxis}], x[{rows, columns}]
  /// The elements that the entries select; axes without an entry stay whole. A view unless an entry is a tensor (of
  /// integers, else DTypeError). A position outside its axis throws ShapeError, one in a tensor when the kernel runs.
  Tensor operator[](std::initializer_list<Index>) const&;
  Tensor operator[](std::initializer_list<Index>) const&&;
  Tensor operator[](const Index&) const&;
  Tensor operator[](const Index&) const&&;
  Tensor at(std::span<const Index>) const;  ///< the same, for entries that are worked out at run time
  Tensor slice(std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step = 1) const;
  Tensor reshape(const Shape&) const;
  Tensor view(const Shape&) const;  ///< reshape that never copies: ShapeError where strides do not allow a view
  Tensor flatten(std::int64_t first_axis = 0) const;
  Tensor squeeze(const Axes& = {}) const;
  Tensor expand_dims(std::int64_t axis) const;
  Tensor permute(const Axes&) const;
  Tensor transpose(std::int64_t axis0 = -2, std::int64_t axis1 = -1) const;
  Tensor sum(const Axes& = {}, bool keep_dims = false) const;
  Tensor mean(const Axes& = {}, bool keep_dims = false) const;
  Tensor max(const Axes& = {}, bool keep_dims = false) const;
  Tensor min(const Axes& = {}, bool keep_dims = false) const;
  Tensor prod(const Axes& = {}, bool keep_dims = false) const;
  Tensor norm(const Axes& = {}, bool keep_dims = false) const;
  Tensor argmax() const;
  Tensor argmin() const;
  Tensor argmax(std::int64_t axis, bool keep_dims = false) const;
  Tensor argmin(std::int64_t axis, bool keep_dims = false) const;
  template <std::same_as<bool> B> Tensor argmax(B keep_dims) const = delete;  // keep_dims needs an axis
  template <std::same_as<bool> B> Tensor argmin(B keep_dims) const = delete;
  Tensor softmax(std::int64_t axis = -1) const;
  Tensor log_softmax(std::int64_t axis = -1) const;
  Tensor matmul(const Tensor& rhs) const;
  Tensor pow(const Tensor& exponent) const;
  template <Literal T> Tensor pow(T exponent) const { return pow(Tensor(Scalar(exponent))); }
  Tensor clip(const Scalar& low, const Scalar& high) const;
  Tensor abs() const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor relu() const;
  Tensor sigmoid() const;
  Tensor tanh() const;
  Tensor cast(DType) const;
  Tensor to(DType dtype) const { return cast(dtype); }
  Tensor to(Device) const;

  // --- writing in place (in_place.cpp): into the memory, which views share, so that x.slice(0, 0, 2).fill_(0) writes
  // x. Nothing is recorded: AutodiffError for a tensor that an operation recorded, for a leaf that requires a gradient
  // and for a value that does, these two except under NoGrad. Backward through what had saved the old values throws.
  // Operands are promoted and broadcast, the result keeps this tensor's shape and type: ShapeError, and DTypeError for
  // what is of another kind (a fraction for integers; fill_ and copy_ convert). Returns the tensor.
  Tensor add_(const Tensor&) const;
  Tensor sub_(const Tensor&) const;
  Tensor mul_(const Tensor&) const;
  Tensor div_(const Tensor&) const;
  Tensor fill_(const Scalar&) const;
  Tensor copy_(const Tensor&) const;  ///< elements converted; any device
  template <Literal T> Tensor copy_(T value) const { return copy_(Tensor(Scalar(value))); }
  template <Literal T> Tensor add_(T value) const { return add_(Tensor(Scalar(value))); }
  template <Literal T> Tensor sub_(T value) const { return sub_(Tensor(Scalar(value))); }
  template <Literal T> Tensor mul_(T value) const { return mul_(Tensor(Scalar(value))); }
  template <Literal T> Tensor div_(T value) const { return div_(Tensor(Scalar(value))); }

  // --- gradients
  bool requires_grad() const noexcept;  ///< a leaf that collects a gradient, or made from one
  /// Leaves of floating type only, and not to be dropped while attached to a group, else AutodiffError.
  Tensor& set_requires_grad(bool);
  bool is_leaf() const noexcept;
  Tensor detach() const;  ///< same storage, no graph
  /// Undefined if there is none yet, or if none is required; joins a reduction in flight first. AutodiffError for what
  /// an operation made: only leaves keep gradients (PyTorch warns and gives None); `grad(output, inputs)` and hooks
  /// show others. Also for a leaf with sparse gradients, and if undefined.
  Tensor grad() const;
  /// A leaf [rows, ...] that only `embedding` reads then collects the gradients of the rows that were read, never one
  /// of the table's size. Not while it has a gradient or belongs to a group, else AutodiffError.
  Tensor& set_sparse_grad(bool);
  bool has_sparse_grad() const noexcept;  ///< a leaf that was marked so
  /// Coalesced: indices ascending, each once; undefined if there is none. Joins a reduction in flight, and waits for
  /// the device's compute stream. AutodiffError for a leaf with dense gradients.
  SparseGradient sparse_grad() const;
  void zero_grad();                     ///< marks the slot undefined; clears nothing; joins first
  GradientSlot& gradient_slot() const;  ///< slot of a leaf that requires a gradient, else AutodiffError
  /// `hook` sees the gradient of this tensor in every backward and `grad` that computes it, once, summed over its
  /// contributions; what it returns takes its place, an undefined tensor leaves it. At a leaf before the gradient is
  /// accumulated or reduced: it is this backward's on this device, times the step's weight. It must not write in place.
  /// A null gradient calls no hook. AutodiffError if no gradient is required, and for a leaf with sparse gradients.
  HookHandle register_hook(GradientHook hook) const;
  template <class Watch>
    requires std::is_void_v<std::invoke_result_t<Watch&, const Tensor&>>
  HookHandle register_hook(Watch watch) const {
    return register_hook(GradientHook([watch = std::move(watch)](const Tensor& gradient) mutable {
      watch(gradient);
      return Tensor();
    }));
  }

  /// Replaces a leaf's value, keeping its identity, slot and attachment: loading, optimizers outside the tree.
  void set_array(Array);

  // --- for operations (autodiff/node.h)
  static Tensor from_node(Array value, std::shared_ptr<Node> node);
  const std::shared_ptr<Node>& node() const noexcept;  ///< node that made it; null for leaves and constants
  bool is_writable() const noexcept;                   ///< made by x[...], a view of a variable: x[0] = 1 is seen in x

 private:
  Tensor brackets(std::span<const Index>, bool writable) const;
  void write_through(const Tensor& value) const;
  void mark_writable() noexcept;

  friend const std::shared_ptr<Node>& gradient_node(const Tensor&);
  friend const Scalar& weak_value(const Tensor&);
  friend Array take_array(Tensor&&);
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

std::ostream& operator<<(std::ostream&, const Tensor&);  ///< elements, type, shape and device (exchange/print.h)

/// Stops the recording of graphs by operations on its thread while it lives.
class NoGrad {
 public:
  [[nodiscard]] NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool previous_;
};

/// Lets operations on its thread record graphs while it lives: for gradients inside a custom function's backward, which
/// runs without recording.
class EnableGrad {
 public:
  [[nodiscard]] EnableGrad();
  ~EnableGrad();
  EnableGrad(const EnableGrad&) = delete;
  EnableGrad& operator=(const EnableGrad&) = delete;

 private:
  bool previous_;
};
bool grad_enabled() noexcept;  ///< true if the calling thread records graphs

/// Stops all recording on its thread while it lives, as NoGrad, whatever is called: EnableGrad has no effect, and
/// `backward` and `grad` throw AutodiffError. Results are plain constants, which may enter a graph later. Scopes nest.
class Inference {
 public:
  [[nodiscard]] Inference();
  ~Inference();
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

 private:
  NoGrad no_grad_;
  bool previous_;
};
bool inference_enabled() noexcept;                  ///< true under Inference, on the calling thread
void refuse_inference(std::string_view operation);  ///< throws AutodiffError under Inference

}  // namespace tutti
