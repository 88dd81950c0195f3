// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>

#include <tutti/autodiff/engine/backward_run.h>
#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/raise.h>

namespace tutti {

namespace {

std::uint64_t next_sequence() {
  thread_local std::uint64_t counter = 0;
  return ++counter;
}

// References that wait to be dropped.
constinit thread_local CachedVector<std::shared_ptr<Node>>* condemned = nullptr;

/// The outermost on a thread owns the list, and empties it in a loop.
class Turn {
 public:
  Turn() {
    if (condemned == nullptr) condemned = &own_;
  }
  ~Turn() {
    if (condemned != &own_) return;
    while (!own_.empty()) {
      const std::shared_ptr<Node> last = std::move(own_.back());
      own_.pop_back();
    }
    condemned = nullptr;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  CachedVector<std::shared_ptr<Node>> own_;
};

}  // namespace

Node::Node(std::string_view name, std::span<const Tensor> inputs)
    : name_(name),
      called_(detail::operation_called(name)),
      sequence_(next_sequence()),
      count_(inputs.size()),
      site_(Scope::site()) {
  if (count_ > kInline) more_.resize(count_ - kInline);
  for (std::size_t i = 0; i < count_; ++i) (i < kInline ? inline_[i] : more_[i - kInline]) = gradient_node(inputs[i]);
}

void detail::drop_in_turn(std::shared_ptr<Node>&& node) {
  if (condemned != nullptr) return condemned->push_back(std::move(node));
  const Turn turn;
  node.reset();
}

Node::~Node() {
  const Turn turn;
  // Also those that others still hold: their last references may be this node's two edges, or go at the same moment on
  // another thread. A leaf has no inputs to recurse into.
  const auto condemn = [](std::shared_ptr<Node>& node) {
    if (node && !node->is_leaf()) condemned->push_back(std::move(node));
  };
  for (auto& node : inline_) condemn(node);
  for (auto& node : more_) condemn(node);
}

Array InputGradients::destination(std::size_t input) const {
  return grad_enabled() ? Array() : run_.destination_of(node_.input(input).get());
}

Tensor InputGradients::take_sum(std::size_t input) {
  return grad_enabled() || detects_anomalies() ? Tensor() : run_.take_sum(node_.input(input).get());
}

bool InputGradients::wants_rows(std::size_t input) const { return run_.wants_rows(node_.input(input).get()); }

void InputGradients::set_rows(std::size_t input, SparseGradient rows) {
  run_.add_rows(node_.input(input).get(), std::move(rows));
}

std::string detail::step_title(std::string_view called, std::string_view name) {
  return called == name ? std::string(name) : fmt::format("{} ({})", called, name);
}

std::string Node::title() const {
  return site_ ? fmt::format("{} in {}", called_, to_string(*site_)) : std::string(called_);
}

std::string Node::step_title() const {
  const std::string title = detail::step_title(called_, name_);
  return site_ ? fmt::format("{} in {}", title, to_string(*site_)) : title;
}

std::string Node::origin() const {
  if (!is_leaf()) return " made by " + title();
  return site_ ? " made in " + to_string(*site_) : "";
}

HookHandle Node::add_hook(GradientHook hook) {
  if (!hooks_) hooks_ = std::make_shared<HookList<GradientHook>>();
  return {hooks_, std::move(hook)};
}

Tensor Node::hooked(Tensor gradient) const {
  const auto text = [](const Tensor& x) {
    return fmt::format("{} {} on {}", to_string(x.shape()), to_string(x.dtype()), to_string(x.device()));
  };
  hooks_->for_each([&](const std::shared_ptr<GradientHook>& hook) {
    Tensor replacement = (*hook)(gradient);
    if (!replacement.defined()) return;
    if (replacement.shape() != gradient.shape() || replacement.dtype() != gradient.dtype() ||
        replacement.device() != gradient.device())
      raise<AutodiffError>("[hook] a hook of {} returned {} in place of {}", title(), text(replacement),
                           text(gradient));
    gradient = std::move(replacement);
  });
  return gradient;
}

void Node::require_unwritten(const SavedTensor& saved) const {
  if (!saved.value.defined() || saved.value.storage()->version() == saved.version) return;
  raise<AutodiffError>(
      "[backward] {} saved a value of shape {} for its gradient, and {} has written to it since: write after backward, "
      "or to a copy",
      step_title(), to_string(saved.value.shape()), saved.value.storage()->last_writer());
}

Tensor Node::restore(const SavedTensor& saved, const std::shared_ptr<Node>& self) const {
  require_unwritten(saved);
  if (saved.source == SavedTensor::kConstant) return Tensor(saved.value);
  const std::shared_ptr<Node>& node =
      saved.source == SavedTensor::kOutput ? self : input(static_cast<std::size_t>(saved.source));
  return node && grad_enabled() ? Tensor::from_node(saved.value, node) : Tensor(saved.value);
}

}  // namespace tutti
