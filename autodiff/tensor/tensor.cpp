// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/tensor.h>

#include <tutti/autodiff/checkpoint.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/memory/thread_cache.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <mutex>
#include <optional>
#include <utility>

namespace tutti {

namespace {

bool& recording() {
  thread_local bool enabled = true;
  return enabled;
}

constinit thread_local bool inference = false;

const std::shared_ptr<Node> kNoNode;

}  // namespace

struct Tensor::Impl {
  Impl() = default;
  ~Impl() {
    if (node) detail::drop_in_turn(std::move(node));
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Array value;
  std::shared_ptr<Node> node;  // what receives the gradient: the operation that made it, or a LeafNode
  std::optional<Scalar> weak;  // a literal; its array is made when it is first asked for, on any thread
  std::once_flag made;
  bool writable = false;  // shows elements of a variable: what is assigned to it is seen there
};

Tensor::Tensor(Array value, bool requires_grad) : impl_(make_cached<Impl>()) {
  impl_->value = std::move(value);
  if (requires_grad) set_requires_grad(true);
}

Tensor::Tensor(Scalar scalar) : impl_(make_cached<Impl>()) { impl_->weak = scalar; }

const Array& Tensor::array() const {
  if (!impl_) raise_undefined("tensor");
  if (impl_->weak)
    std::call_once(impl_->made,
                   [&impl = *impl_] { impl.value = Array::full({}, *impl.weak, impl.weak->default_dtype(), cpu(0)); });
  if (InputTrace::active() && !impl_->node) detail::input_trace->add_read(impl_->value);
  return impl_->value;
}

bool Tensor::is_weak_scalar() const noexcept { return impl_ && impl_->weak.has_value(); }
bool Tensor::is_writable() const noexcept { return impl_ && impl_->writable; }
void Tensor::mark_writable() noexcept { impl_->writable = true; }
bool Tensor::requires_grad() const noexcept { return impl_ && impl_->node != nullptr; }
bool Tensor::is_leaf() const noexcept { return !impl_ || !impl_->node || impl_->node->is_leaf(); }

Tensor& Tensor::set_requires_grad(bool required) {
  const Array& value = array();
  if (!is_leaf())
    raise<AutodiffError>("[set_requires_grad] this tensor was made by {}: only leaves choose; use detach()",
                         impl_->node->title());
  if (required && (!is_floating(value.dtype()) || impl_->weak))
    raise<AutodiffError>("[set_requires_grad] a {} {} has no gradient", to_string(value.dtype()),
                         impl_->weak ? "literal" : "tensor");
  if (!required) {
    if (impl_->node && gradient_slot().attachment)
      raise<AutodiffError>(
          "[set_requires_grad] parameter \"{}\" belongs to a synchronisation group, which would miss it",
          gradient_slot().attachment->name);
    impl_->node = nullptr;  // a sparse mark goes with it
  } else if (!impl_->node) {
    auto leaf = std::make_shared<LeafNode>();
    leaf->device = value.device();
    leaf->shape = value.shape();
    leaf->dtype = value.dtype();
    impl_->node = std::move(leaf);
  }
  return *this;
}

Tensor Tensor::detach() const {
  if (is_weak_scalar()) return *this;
  return Tensor(array());
}

GradientSlot& Tensor::gradient_slot() const {
  if (!impl_) raise<AutodiffError>("[gradient] an undefined tensor has none");
  if (!impl_->node) raise<AutodiffError>("[gradient] this tensor requires none: call set_requires_grad(true) first");
  if (!impl_->node->is_leaf())
    raise<AutodiffError>(
        "[gradient] this tensor was made by {}: only leaves (parameters, inputs) keep a gradient; use grad(output, "
        "inputs) or register_hook",
        impl_->node->title());
  return static_cast<LeafNode&>(*impl_->node).slot;
}

namespace {

std::string name_of(const GradientSlot& slot) {
  return slot.attachment ? fmt::format("parameter \"{}\"", slot.attachment->name) : "this tensor";
}

}  // namespace

Tensor& Tensor::set_sparse_grad(bool sparse) {
  GradientSlot& slot = gradient_slot();
  if (slot.sparse == sparse) return *this;
  if (array().rank() == 0) raise<AutodiffError>("[set_sparse_grad] a scalar has no rows");
  if (slot.attachment)
    raise<AutodiffError>("[set_sparse_grad] {} belongs to a synchronisation group: choose before it is attached",
                         name_of(slot));
  if (slot.state != GradientState::undefined)
    raise<AutodiffError>("[set_sparse_grad] {} has a gradient: call zero_grad() first", name_of(slot));
  if (sparse && impl_->node->has_hooks())
    raise<AutodiffError>("[set_sparse_grad] {} has hooks, which see dense gradients: remove them first", name_of(slot));
  slot.sparse = sparse;
  return *this;
}

HookHandle Tensor::register_hook(GradientHook hook) const {
  if (InputTrace::active())
    raise<AutodiffError>("[register_hook] not in the function of a checkpoint, which runs twice: register it outside");
  if (!defined()) raise<AutodiffError>("[register_hook] an undefined tensor has no gradient to be seen");
  if (!requires_grad())
    raise<AutodiffError>(
        "[register_hook] this tensor requires no gradient: call set_requires_grad(true), or make it of what does");
  if (has_sparse_grad()) raise<AutodiffError>("[register_hook] {} has sparse gradients", name_of(gradient_slot()));
  return impl_->node->add_hook(std::move(hook));
}

bool Tensor::has_sparse_grad() const noexcept {
  return impl_ && impl_->node && impl_->node->is_leaf() && static_cast<const LeafNode&>(*impl_->node).slot.sparse;
}

SparseGradient Tensor::sparse_grad() const {
  GradientSlot& slot = gradient_slot();
  if (!slot.sparse) raise<AutodiffError>("[sparse_grad] {} has dense gradients: read them with grad()", name_of(slot));
  slot.join_pending();
  if (slot.state == GradientState::undefined) return {};
  if (slot.rows.empty()) return {Array::empty({0}, DType::i64, device()), array().slice(0, 0, 0).copy(), shape(), true};
  SparseGradient sum = coalesce(slot.rows);
  slot.rows = {sum};
  return sum;
}

Tensor Tensor::grad() const {
  if (impl_ && !impl_->node) return {};  // frozen
  const GradientSlot& slot = gradient_slot();
  if (slot.sparse) raise<AutodiffError>("[grad] {} has sparse gradients: read them with sparse_grad()", name_of(slot));
  slot.join_pending();
  if (slot.state == GradientState::undefined) return {};
  if (slot.state == GradientState::elsewhere)
    raise<AutodiffError>(
        "[grad] the gradient of parameter \"{}\" on {} is scattered: a device keeps that of its share only, for its "
        "ShardedOptimizer",
        slot.attachment ? slot.attachment->name : "", to_string(device()));
  if (!slot.destination.defined()) return Tensor(slot.gradient);
  Array gradient = lend(slot.gradient);
  slot.lent = gradient.storage();
  return Tensor(std::move(gradient));
}

void Tensor::zero_grad() {
  if (impl_ && !impl_->node) return;  // frozen
  GradientSlot& slot = gradient_slot();
  try {
    slot.join_pending();
  } catch (const Error&) {
    // What failed stays with the group: whoever reads a gradient or steps hears of it.
  }
  slot.state = GradientState::undefined;
  slot.gradient = Array();
  slot.rows.clear();
}

void Tensor::set_array(Array value) {
  const Array& old = array();
  if (!value.defined()) raise<AutodiffError>("[set_array] the value is undefined");
  if (!is_leaf())
    raise<AutodiffError>("[set_array] this tensor was made by {}: only leaves take values", impl_->node->title());
  if (value.shape() != old.shape())
    raise<ShapeError>("[set_array] shape {} in place of {}", to_string(value.shape()), to_string(old.shape()));
  if (value.dtype() != old.dtype())
    raise<DTypeError>("[set_array] {} in place of {}", to_string(value.dtype()), to_string(old.dtype()));
  if (value.device() != old.device())
    raise<DeviceError>("[set_array] {} in place of {}", to_string(value.device()), to_string(old.device()));
  impl_->value = std::move(value);
}

Tensor Tensor::from_node(Array value, std::shared_ptr<Node> node) {
  Tensor tensor;
  tensor.impl_ = make_cached<Impl>();
  tensor.impl_->value = std::move(value);
  tensor.impl_->node = std::move(node);
  return tensor;
}

const std::shared_ptr<Node>& Tensor::node() const noexcept { return is_leaf() ? kNoNode : impl_->node; }

const std::shared_ptr<Node>& gradient_node(const Tensor& tensor) {
  return tensor.requires_grad() ? tensor.impl_->node : kNoNode;
}

const Scalar& weak_value(const Tensor& tensor) { return *tensor.impl_->weak; }

Array take_array(Tensor&& tensor) {
  const bool sole_tensor = tensor.impl_.use_count() == 1;
  Array value = sole_tensor ? std::move(tensor.impl_->value) : tensor.array();
  tensor.impl_ = nullptr;
  return value;
}

namespace {

// Work that is still queued holds references too, so that this is never true too early.
bool is_exclusive(const Array& array) { return array.storage().use_count() == 1 && array.is_contiguous(); }

}  // namespace

Array take_exclusive(Tensor&& tensor) {
  Array value = take_array(std::move(tensor));
  return is_exclusive(value) ? value : value.copy();
}

void add_to(Array& sum, const Array& gradient, bool owned) {
  if (!(owned || is_exclusive(sum)) || sum.shape() != gradient.shape() || sum.dtype() != gradient.dtype() ||
      sum.device() != gradient.device()) {
    sum = apply(elementwise::Add{}, sum, gradient);  // which also names what does not fit
  } else if (sum.size() > 0) {
    const Array inputs[] = {sum, gradient};
    backend_for(sum.device()).elementwise(make_call(elementwise::Add{}, ElementwiseCall::Part::value), inputs, sum);
  }
}

NoGrad::NoGrad() : previous_(std::exchange(recording(), false)) {}
NoGrad::~NoGrad() { recording() = previous_; }
EnableGrad::EnableGrad() : previous_(std::exchange(recording(), !inference)) {}
EnableGrad::~EnableGrad() { recording() = previous_; }
bool grad_enabled() noexcept { return recording(); }

Inference::Inference() : previous_(std::exchange(inference, true)) {}
Inference::~Inference() { inference = previous_; }
bool inference_enabled() noexcept { return inference; }

void refuse_inference(std::string_view operation) {
  if (inference) raise<AutodiffError>("[{}] not under Inference: there are no graphs", operation);
}

}  // namespace tutti
