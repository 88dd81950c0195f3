// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/checkpoint.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward_run.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/tensor_access.h>
#include <tutti/backend/draw_log.h>
#include <tutti/backend/error.h>

#include <optional>
#include <utility>

namespace tutti {

namespace {

constinit thread_local InputTrace* innermost = nullptr;

/// What the second run needs. Of `tensors` the first `arguments` are f's, the others are what it read besides.
struct Checkpoint {
  CheckpointedFunction f;
  std::size_t arguments;
  std::vector<Tensor> tensors;
  std::vector<SavedTensor> saved;
  DrawLog draws;
  DType autocast;
  Shape shape;
  DType dtype;
};

class CheckpointNode final : public Node {
 public:
  explicit CheckpointNode(Checkpoint kept) : Node("checkpoint", kept.tensors), kept_(std::move(kept)) {
    for (std::size_t i = 0; i < kept_->arguments; ++i) kept_->tensors[i] = {};  // their nodes are held already
  }

  void backward(const Tensor& gradient, InputGradients& gradients) override {
    const bool differentiable = grad_enabled();
    const Tensor y = run_again();
    if (!y.requires_grad()) return;
    BackwardRun::Targets boundary;
    for (std::size_t i = 0; i < input_count(); ++i)
      if (input(i)) boundary.push_back(input(i).get());
    BackwardRun run({{gradient_node(y), gradient}}, boundary, BackwardRun::Into::boundary);
    if (const Node* leaf = run.stray_leaf())
      raise<AutodiffError>("[checkpoint] {} reads a leaf in backward that it had not read before (a {})", title(),
                           leaf->title());
    run.execute([&](const Node& node, const Tensor& part) { gradients.set(place_of(node), part); }, !differentiable);
  }
  void release_saved() override { kept_.reset(); }
  bool released() const noexcept override { return !kept_; }
  bool reads_unknown() const noexcept override { return true; }  // the function may refer to anything

 private:
  // Two inputs of one node are one to the run.
  std::size_t place_of(const Node& node) const {
    std::size_t place = 0;
    while (input(place).get() != &node) ++place;
    return place;
  }

  Tensor run_again() const {
    std::vector<Tensor> arguments;
    for (std::size_t i = 0; i < kept_->saved.size(); ++i) {
      const SavedTensor& saved = kept_->saved[i];
      require_unwritten(saved);
      if (i < kept_->arguments)
        arguments.push_back(input(i) ? Tensor::from_node(saved.value, input(i)) : Tensor(saved.value));
      else if (kept_->tensors[i].array().storage() != saved.value.storage())
        raise<AutodiffError>("[checkpoint] a tensor of shape {} that {} reads was given another value before backward",
                             to_string(saved.value.shape()), title());
    }
    const EnableGrad recording;
    const Autocast autocast(kept_->autocast);
    const DrawScope draws = DrawScope::replay(kept_->draws);
    Tensor y = kept_->f(arguments);
    if (y.shape() != kept_->shape || y.dtype() != kept_->dtype)
      raise<AutodiffError>("[checkpoint] {} gave {} {} in forward and {} {} in backward", title(),
                           to_string(kept_->shape), to_string(kept_->dtype), to_string(y.shape()),
                           to_string(y.dtype()));
    return y;
  }

  std::optional<Checkpoint> kept_;
};

}  // namespace

InputTrace::InputTrace() : outer_(std::exchange(innermost, this)) {}
InputTrace::~InputTrace() { innermost = outer_; }
bool InputTrace::active() noexcept { return innermost != nullptr; }

void InputTrace::add(const Tensor& tensor) {
  if (tensor.requires_grad() && seen_.insert(gradient_node(tensor).get()).second) tensors_.push_back(tensor);
}

bool detail::only_traced(std::span<const Tensor> inputs) {
  if (innermost == nullptr) return false;
  for (const Tensor& input : inputs) innermost->add(input);
  return true;
}

Tensor checkpoint(CheckpointedFunction f, std::vector<Tensor> inputs) {
  refuse_inference("checkpoint");
  if (!grad_enabled()) return f(inputs);
  Checkpoint kept{std::move(f), inputs.size(), std::move(inputs), {}, {}, autocast_dtype(), {}, {}};
  Tensor y;
  {
    InputTrace trace;
    const DrawScope draws = DrawScope::record(kept.draws);
    y = kept.f(kept.tensors);
    std::unordered_set<const Node*> given;
    for (const Tensor& input : kept.tensors) given.insert(gradient_node(input).get());
    trace.add(y);  // it may be one of those
    for (const Tensor& tensor : trace.tensors())
      if (!given.contains(gradient_node(tensor).get())) kept.tensors.push_back(tensor);
  }
  y = y.detach();
  if (!records(kept.tensors)) return y;
  for (std::size_t i = 0; i < kept.tensors.size(); ++i)
    kept.saved.push_back(save(kept.tensors[i], static_cast<int>(i)));
  kept.shape = y.shape();
  kept.dtype = y.dtype();
  return Tensor::from_node(y.array(), std::make_shared<CheckpointNode>(std::move(kept)));
}

Tensor checkpoint(std::function<Tensor(const Tensor&)> f, const Tensor& x) {
  return checkpoint([f = std::move(f)](std::span<const Tensor> inputs) { return f(inputs[0]); },
                    std::vector<Tensor>{x});
}

}  // namespace tutti
