// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/checkpoint.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/engine/backward_run.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/scope.h>
#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/random/draw_log.h>

#include <optional>
#include <utility>

namespace tutti {

namespace {

/// What the second run needs. Of `tensors` the first `arguments` are f's, the others are what it read besides. An
/// argument is kept as a tensor if f refers to it besides, and instead of its value if it has none or is a literal.
struct Checkpoint {
  CheckpointedFunction f;
  std::size_t arguments;
  std::vector<Tensor> tensors;
  std::vector<SavedTensor> saved;
  std::vector<InputTrace::Read> reads;
  DrawLog draws;
  std::shared_ptr<const Site> site;
  DType autocast;
  Shape shape;
  DType dtype;
};

// A tensor of its own, so that it can be told from the same leaf that f refers to.
Tensor given_again(const Array& value, const std::shared_ptr<Node>& node) {
  return node ? Tensor::from_node(value, node) : Tensor(value);
}

class CheckpointNode final : public Node {
 public:
  CheckpointNode(Checkpoint kept, const std::unordered_set<const Node*>& captured)
      : Node("checkpoint", kept.tensors), kept_(std::move(kept)) {
    for (std::size_t i = 0; i < kept_->arguments; ++i)
      if (kept_->saved[i].value.defined() && !captured.contains(input(i).get())) kept_->tensors[i] = {};
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

  /// f's arguments, if everything that it will read is as it was.
  std::vector<Tensor> same_arguments() const {
    std::vector<Tensor> arguments;
    for (std::size_t i = 0; i < kept_->saved.size(); ++i) {
      const SavedTensor& saved = kept_->saved[i];
      const Tensor& tensor = kept_->tensors[i];
      require_unwritten(saved);
      if (saved.value.defined() && tensor.defined() && tensor.array().storage() != saved.value.storage())
        raise<AutodiffError>("[checkpoint] a tensor of shape {} that {} reads was given another value before backward",
                             to_string(saved.value.shape()), title());
      if (i < kept_->arguments)
        arguments.push_back(saved.value.defined() ? given_again(saved.value, input(i)) : tensor);
    }
    for (const InputTrace::Read& read : kept_->reads)
      if (const auto storage = read.storage.lock(); storage && storage->version() != read.version)
        raise<AutodiffError>(
            "[checkpoint] {} reads a tensor of {} bytes, and {} has written to it since: write after "
            "backward, or to a copy",
            title(), storage->bytes(), storage->last_writer());
    return arguments;
  }

  Tensor run_again() const {
    const std::vector<Tensor> arguments = same_arguments();
    const EnableGrad recording;
    const Scope site(kept_->site);
    const Autocast autocast(kept_->autocast);
    const DrawScope draws = DrawScope::replay(kept_->draws);
    Tensor y = kept_->f(arguments);
    if (!y.defined()) raise<AutodiffError>("[checkpoint] {} gave an undefined tensor in backward", title());
    if (y.shape() != kept_->shape || y.dtype() != kept_->dtype)
      raise<AutodiffError>("[checkpoint] {} gave {} {} in forward and {} {} in backward", title(),
                           to_string(kept_->shape), to_string(kept_->dtype), to_string(y.shape()),
                           to_string(y.dtype()));
    return y;
  }

  std::optional<Checkpoint> kept_;
};

}  // namespace

constinit thread_local InputTrace* detail::input_trace = nullptr;

InputTrace::InputTrace() : outer_(std::exchange(detail::input_trace, this)) {}
InputTrace::~InputTrace() { detail::input_trace = outer_; }

void InputTrace::add(const Tensor& tensor) {
  if (tensor.requires_grad() && seen_.insert(tensor.identity()).second) tensors_.push_back(tensor);
}

void InputTrace::add_read(const Array& value) {
  if (!value.defined()) return;
  for (InputTrace* trace = this; trace != nullptr; trace = trace->outer_)
    trace->reads_.try_emplace(value.storage().get(), value.storage(), value.storage()->version());
}

std::vector<InputTrace::Read> InputTrace::reads() const {
  std::vector<Read> reads;
  for (const auto& [_, read] : reads_)
    if (const auto storage = read.storage.lock(); storage && storage->version() == read.version) reads.push_back(read);
  return reads;
}

bool detail::only_traced(std::span<const Tensor> inputs) {
  if (input_trace == nullptr) return false;
  for (const Tensor& input : inputs) input_trace->add(input);
  return true;
}

Tensor checkpoint(CheckpointedFunction f, std::vector<Tensor> inputs) {
  if (!f) raise<AutodiffError>("[checkpoint] there is no function");
  if (!grad_enabled()) return f(inputs);
  Checkpoint kept{std::move(f), inputs.size(), std::move(inputs), {}, {}, {}, Scope::site(), autocast_dtype(), {}, {}};
  std::unordered_set<const Node*> captured;  // arguments that f refers to
  Tensor y;
  {
    std::vector<Tensor> arguments;
    std::unordered_set<const Node*> given;
    for (const Tensor& input : kept.tensors) {
      const auto& node = gradient_node(input);
      arguments.push_back(node ? given_again(input.array(), node) : input);
      if (node) given.insert(node.get());
    }
    InputTrace trace;
    const DrawScope draws = DrawScope::record(kept.draws);
    y = kept.f(arguments);
    if (!y.defined()) raise<AutodiffError>("[checkpoint] the function returned an undefined tensor");
    trace.add(y);  // it may be one of those
    std::unordered_set<const void*> seen;
    for (const Tensor& argument : arguments) seen.insert(argument.identity());
    for (const Tensor& tensor : trace.tensors()) {
      if (seen.contains(tensor.identity())) continue;
      const Node* node = gradient_node(tensor).get();
      if (given.insert(node).second)
        kept.tensors.push_back(tensor);
      else
        captured.insert(node);
    }
    kept.reads = trace.reads();
  }
  y = y.detach();
  if (!records(kept.tensors)) return y;
  std::erase_if(kept.reads, [&](const InputTrace::Read& read) { return read.storage.lock() == y.array().storage(); });
  for (const Tensor& tensor : kept.tensors) {
    const bool has_value = tensor.defined() && !tensor.is_weak_scalar();
    kept.saved.push_back(has_value ? save(tensor, static_cast<int>(kept.saved.size())) : SavedTensor());
  }
  kept.shape = y.shape();
  kept.dtype = y.dtype();
  return Tensor::from_node(y.array(), std::make_shared<CheckpointNode>(std::move(kept), captured));
}

Tensor checkpoint(std::function<Tensor(const Tensor&)> f, const Tensor& x) {
  if (!f) raise<AutodiffError>("[checkpoint] there is no function");
  return checkpoint([f = std::move(f)](std::span<const Tensor> inputs) { return f(inputs[0]); },
                    std::vector<Tensor>{x});
}

}  // namespace tutti
