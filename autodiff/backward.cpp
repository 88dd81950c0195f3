// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward_run.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor_access.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#include <optional>
#include <utility>

namespace tutti {

namespace {

thread_local LocalAccumulation* innermost = nullptr;

void check_root(const Tensor& root, const char* operation) {
  if (!root.requires_grad())
    raise<AutodiffError>("[{}] the root has no graph: no operand required a gradient, or it was made under NoGrad",
                         operation);
}

Tensor root_gradient(const Tensor& root, const Tensor& given, double scale, const char* operation) {
  if (!given.defined() && root.size() != 1)
    raise<AutodiffError>("[{}] the root has shape {}: give its gradient, or reduce it to one element", operation,
                         to_string(root.shape()));
  if (given.defined() && given.shape() != root.shape())
    raise<ShapeError>("[{}] the root's gradient has shape {}, the root {}", operation, to_string(given.shape()),
                      to_string(root.shape()));
  if (given.defined() && (given.dtype() != root.dtype() || given.device() != root.device()))
    raise<DTypeError>("[{}] the root's gradient is {} on {}, the root {} on {}", operation, to_string(given.dtype()),
                      to_string(given.device()), to_string(root.dtype()), to_string(root.device()));
  if (scale == 0.0) return {};  // null: nothing is computed, and everything is final as zeros
  if (!given.defined()) return Tensor(Array::full(root.shape(), scale, root.dtype(), root.device()));
  return scale == 1.0 ? given : given * scale;
}

Tensor ones_like(const Tensor& root) { return Tensor(Array::full(root.shape(), 1, root.dtype(), root.device())); }

bool is_same_place(const Array& a, const Array& b) {
  return a.defined() && b.defined() && a.storage().get() == b.storage().get() && a.offset() == b.offset() &&
         a.is_contiguous() && b.is_contiguous();
}

void move_to_destination(GradientSlot& slot, const Array& gradient) {
  if (!is_same_place(gradient, slot.destination)) slot.destination.copy_from(gradient);
  slot.gradient = slot.destination;
}

void add_to_slot(GradientSlot& slot, Tensor gradient) {
  const bool first = slot.state == GradientState::undefined || !slot.gradient.defined();
  if (first && slot.destination.defined())
    move_to_destination(slot, take_array(std::move(gradient)));
  else if (first)
    slot.gradient = take_exclusive(std::move(gradient));
  else
    add_to(slot.gradient, gradient.array(), is_same_place(slot.gradient, slot.destination) && slot.lent.expired());
  slot.state = GradientState::local;
}

// Nobody else refers to what the slot holds: a caller may write to what he gave as the root's gradient.
void add_to_slot(GradientSlot& slot, std::vector<SparseGradient> rows, double scale) {
  if (slot.state == GradientState::undefined) slot.rows.clear();
  for (SparseGradient& part : rows) {
    Tensor values(std::move(part.rows));
    part.rows = scale == 1.0 ? take_exclusive(std::move(values)) : take_array(values * scale);
    slot.rows.push_back(std::move(part));
  }
  slot.state = GradientState::local;
}

/// Everything about one accumulating backward that concerns leaves and who hears of them.
class Accumulation {
 public:
  Accumulation(const BackwardOptions& options, const LocalAccumulation* scope, const void* local_group)
      : options_(options), scope_(scope), local_group_(local_group) {}

  // Before anything is accumulated.
  void begin(Device device, const std::vector<BackwardRun::Leaf>& leaves) {
    device_ = device;
    std::vector<ParameterUse> uses;
    for (const auto& [leaf, contributions] : leaves) {
      const auto& attachment = leaf->slot.attachment;
      if (!attachment) continue;
      leaf->slot.join_pending();  // a reduction in flight still writes the gradient that would be added to
      check_attached(*leaf, *attachment);
      if (options_.observer == nullptr) continue;
      if (!uses.empty() && leaf->device != device_)
        raise<AutodiffError>("[backward] parameters of one step live on {} (\"{}\") and {} (\"{}\")",
                             to_string(device_), first_name_, to_string(leaf->device), attachment->name);
      if (uses.empty()) first_name_ = attachment->name;
      device_ = leaf->device;
      uses.push_back({attachment->id, contributions});
    }
    if (options_.observer != nullptr) options_.observer->on_backward_begin(device_, uses);
  }

  void accumulate(LeafNode& leaf, std::vector<SparseGradient> rows, double weight, bool unknown_reads) {
    GradientSlot& slot = leaf.slot;
    if (!rows.empty()) add_to_slot(slot, std::move(rows), slot.attachment ? 1.0 : 1.0 / weight);
    if (options_.observer == nullptr || !slot.attachment) return;
    if (slot.state == GradientState::undefined) slot.rows.clear();
    options_.observer->on_gradient_final(leaf.device, slot.attachment->id,
                                         {Array(), compute_stream(leaf.device).record(), unknown_reads, slot.rows});
  }

  void accumulate(LeafNode& leaf, Tensor gradient, double weight, bool unknown_reads) {
    GradientSlot& slot = leaf.slot;
    if (!slot.attachment && gradient.defined() && weight != 1.0) gradient = gradient * (1.0 / weight);
    if (gradient.defined()) add_to_slot(slot, std::move(gradient));
    if (options_.observer == nullptr || !slot.attachment) return;
    if (slot.state == GradientState::local && slot.destination.defined()) move_to_destination(slot, slot.gradient);
    const Array final = slot.state == GradientState::local ? slot.gradient : Array();
    options_.observer->on_gradient_final(leaf.device, slot.attachment->id,
                                         {final, compute_stream(leaf.device).record(), unknown_reads});
  }

  void end() {
    if (options_.observer != nullptr) options_.observer->on_backward_end(device_);
  }

  void failed() noexcept {
    if (options_.observer == nullptr) return;
    try {
      options_.observer->on_backward_failed(device_, std::current_exception());
    } catch (...) {
      // the first error is the one to tell
    }
  }

 private:
  void check_attached(const LeafNode& leaf, const Attachment& attachment) const {
    const void* group = options_.observer != nullptr ? options_.group : local_group_;
    if (options_.observer == nullptr && scope_ == nullptr)
      raise<AutodiffError>(
          "[backward] parameter \"{}\" on {} belongs to a synchronisation group: run its backward through "
          "step.backward, or under step.no_sync to accumulate locally",
          attachment.name, to_string(leaf.device));
    if (attachment.group != group)
      raise<AutodiffError>("[backward] parameter \"{}\" on {} belongs to another device or group than the step",
                           attachment.name, to_string(leaf.device));
    if (leaf.slot.state == GradientState::reduced || leaf.slot.state == GradientState::scattered ||
        leaf.slot.state == GradientState::applied)
      raise<AutodiffError>(
          "[backward] the gradient of parameter \"{}\" on {} is reduced already and cannot be added to: "
          "call zero_grad() before the next step",
          attachment.name, to_string(leaf.device));
  }

  const BackwardOptions& options_;
  Device device_;
  const LocalAccumulation* scope_;
  const void* local_group_;
  std::string first_name_;
};

// Recording is on in a run exactly if its gradients are to be differentiable.
class RecordingMode {
 public:
  explicit RecordingMode(bool create_graph) {
    if (create_graph)
      enable_.emplace();
    else
      disable_.emplace();
  }

 private:
  std::optional<EnableGrad> enable_;
  std::optional<NoGrad> disable_;
};

}  // namespace

void backward(const Tensor& root, const BackwardOptions& options) {
  LocalAccumulation* scope = options.observer == nullptr ? innermost : nullptr;
  const bool failed_before = scope != nullptr && scope->failed_midway_;
  Accumulation accumulation(options, scope, scope != nullptr ? scope->group_ : nullptr);
  try {
    refuse_inference("backward");
    check_root(root, "backward");
    if (options.create_graph && options.observer != nullptr)
      raise<AutodiffError>(
          "[backward] create_graph cannot be combined with an observer: use grad(), whose gradients are local");
    if (options.create_graph)
      raise<AutodiffError>(
          "[backward] create_graph: gradient slots hold plain arrays; grad() gives differentiable ones");
    const NoGrad no_grad;
    const Autocast as_forward_ran(DType::f32);
    const double weight = options.weight * (scope != nullptr ? scope->weight_ : 1.0);
    BackwardRun run({{gradient_node(root), root_gradient(root, options.gradient, options.scale * weight, "backward")}},
                    {}, BackwardRun::Into::slots);
    run.check_saved();
    run.check_sparse();
    accumulation.begin(root.device(), run.leaves());
    if (scope != nullptr) scope->failed_midway_ = true;  // until it has ended
    run.execute(
        [&](Node& node, Tensor gradient) {
          auto& leaf = static_cast<LeafNode&>(node);
          const bool unknown_reads = run.unknown_reads() > 0;
          if (leaf.slot.sparse)
            accumulation.accumulate(leaf, run.take_rows(leaf), weight, unknown_reads);
          else
            accumulation.accumulate(leaf, std::move(gradient), weight, unknown_reads);
        },
        !options.retain_graph);
    accumulation.end();
  } catch (...) {
    accumulation.failed();
    throw;
  }
  if (scope != nullptr) scope->used_ = true, scope->failed_midway_ = failed_before;
}

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs, const GradOptions& options) {
  refuse_inference("grad");
  const RecordingMode mode(options.create_graph);
  const Autocast as_forward_ran(DType::f32);
  if (!options.gradients.empty() && options.gradients.size() != outputs.size())
    raise<AutodiffError>("[grad] {} gradients for {} outputs", options.gradients.size(), outputs.size());
  std::vector<BackwardRun::Root> roots;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_root(outputs[i], "grad");
    const Tensor given = options.gradients.empty() ? Tensor() : options.gradients[i];
    roots.push_back({gradient_node(outputs[i]),
                     given.defined() ? root_gradient(outputs[i], given, 1.0, "grad") : ones_like(outputs[i])});
  }
  BackwardRun::Targets targets;
  for (const Tensor& input : inputs) {
    if (!input.requires_grad()) raise<AutodiffError>("[grad] input {} requires no gradient", targets.size());
    targets.push_back(gradient_node(input).get());
  }
  std::vector<Tensor> results(inputs.size());
  {
    BackwardRun run(std::move(roots), targets, BackwardRun::Into::targets);
    run.check_saved();
    run.execute(
        [&](Node& node, const Tensor& gradient) {
          for (std::size_t i = 0; i < targets.size(); ++i)
            if (targets[i] == &node) results[i] = gradient;
        },
        !options.retain_graph && !options.create_graph);
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!results[i].defined() && !options.allow_unused)
      raise<AutodiffError>(
          "[grad] no path leads from the outputs to input {}: pass allow_unused to get an undefined tensor", i);
  // A caller may write to each: no two share memory, and none is what he gave as an output's gradient.
  if (!options.create_graph)
    for (Tensor& result : results)
      if (result.defined()) result = Tensor(take_exclusive(std::move(result)));
  return results;
}

std::vector<Tensor> grad(const Tensor& output, std::span<const Tensor> inputs, const GradOptions& options) {
  return grad(std::span(&output, 1), inputs, options);
}

LocalAccumulation::LocalAccumulation(const void* group, double weight)
    : group_(group), weight_(weight), outer_(std::exchange(innermost, this)) {}

LocalAccumulation::~LocalAccumulation() { innermost = outer_; }

}  // namespace tutti
