// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/checkpoint.h>
#include <tutti/autodiff/engine/accumulation.h>
#include <tutti/autodiff/engine/backward_run.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <functional>
#include <optional>
#include <utility>

namespace tutti {

namespace {

thread_local LocalAccumulation* innermost_accumulation = nullptr;

void check_root(const Tensor& root, const char* operation) {
  if (!root.defined()) raise<AutodiffError>("[{}] the root is undefined", operation);
  if (!root.requires_grad() && InputTrace::active())
    raise<AutodiffError>(
        "[{}] not in the function of a checkpoint, whose first run records nothing: differentiate outside of it",
        operation);
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
  if (given.defined() && given.dtype() != root.dtype())
    raise<DTypeError>("[{}] the root's gradient is {}, the root {}", operation, to_string(given.dtype()),
                      to_string(root.dtype()));
  if (given.defined() && given.device() != root.device())
    raise<DeviceError>("[{}] the root's gradient is on {}, the root on {}", operation, to_string(given.device()),
                       to_string(root.device()));
  if (scale == 0.0) return {};  // null: nothing is computed, and everything is final as zeros
  if (!given.defined()) return Tensor(Array::full(root.shape(), scale, root.dtype(), root.device()));
  return scale == 1.0 ? given : given * scale;
}

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
  LocalAccumulation* scope = options.observer == nullptr ? innermost_accumulation : nullptr;
  const bool failed_before = scope != nullptr && scope->failed_midway_;
  Accumulation accumulation(options, scope != nullptr, scope != nullptr ? scope->owner_ : nullptr);
  try {
    refuse_inference("backward");
    if (options.record == nullptr && active_capture() != nullptr)
      raise<CaptureError>(
          "[backward] called within a captured step, which back-propagates its loss itself: use grad()");
    check_root(root, "backward");
    if (options.create_graph && options.observer != nullptr)
      raise<AutodiffError>(
          "[backward] create_graph cannot be combined with an observer: use grad(), whose gradients are local");
    if (options.create_graph)
      raise<AutodiffError>(
          "[backward] create_graph: gradient slots hold plain arrays; grad() gives differentiable ones");
    const NoGrad no_grad;
    const Autocast as_forward_ran(DType::f32);
    const double weight = weight_of(options);
    BackwardRun run({{gradient_node(root), root_gradient(root, options.gradient, options.scale * weight, "backward")}},
                    {}, BackwardRun::Into::slots);
    run.check_saved();
    run.check_sparse();
    if (options.record != nullptr) options.record->begun_after = active_capture()->tape().size();
    accumulation.begin(root.device(), run.leaves());
    if (scope != nullptr) scope->failed_midway_ = true;  // until it has ended
    const auto complete = [&](Node& node, Tensor gradient) {
      auto& leaf = static_cast<LeafNode&>(node);
      const bool unknown_reads = run.unknown_reads() > 0;
      if (leaf.slot.sparse)
        accumulation.accumulate(leaf, run.take_rows(leaf), weight, unknown_reads);
      else
        accumulation.accumulate(leaf, std::move(gradient), weight, unknown_reads);
    };
    run.execute(std::cref(complete), !options.retain_graph);  // a reference is held without memory of its own
    accumulation.end();
  } catch (...) {
    accumulation.failed();
    throw;
  }
  if (scope != nullptr) scope->used_ = true, scope->failed_midway_ = failed_before;
}

double weight_of(const BackwardOptions& options) {
  return options.weight *
         (options.observer == nullptr && innermost_accumulation != nullptr ? innermost_accumulation->weight_ : 1.0);
}

void replay_backward(const BackwardRecord& record, const BackwardOptions& options, std::size_t tape_size,
                     const std::function<void(std::size_t, std::size_t)>& run) {
  LocalAccumulation* scope = options.observer == nullptr ? innermost_accumulation : nullptr;
  const bool failed_before = scope != nullptr && scope->failed_midway_;
  Accumulation accumulation(options, scope != nullptr, scope != nullptr ? scope->owner_ : nullptr);
  try {
    std::size_t at = record.begun_after;
    run(0, at);
    accumulation.begin(record.device, record.leaves);
    for (std::size_t i = 0; i < record.leaves.size(); ++i)
      if (record.leaves[i].node->slot.destination.raw_data() != record.places[i])
        raise<CaptureError>("[capture] the layout of gradients changed while a captured step was replayed");
    if (scope != nullptr) scope->failed_midway_ = true;  // until it has ended
    std::size_t told = 0;
    for (const std::size_t last : accumulation.segment_ends(record.finals)) {
      run(std::exchange(at, record.finals[last].after), record.finals[last].after);
      for (; told <= last; ++told)
        accumulation.restore(record.finals[told], at < tape_size);  // what is still to run may read any parameter
    }
    run(at, tape_size);
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
  CachedVector<BackwardRun::Root> roots;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_root(outputs[i], "grad");
    const Tensor given = options.gradients.empty() ? Tensor() : options.gradients[i];
    roots.push_back({gradient_node(outputs[i]),
                     given.defined() ? root_gradient(outputs[i], given, 1.0, "grad") : ones_like(outputs[i])});
  }
  BackwardRun::Targets targets;
  for (const Tensor& input : inputs) {
    if (!input.defined()) raise<AutodiffError>("[grad] input {} is undefined", targets.size());
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

LocalAccumulation::LocalAccumulation(const void* owner, double weight)
    : owner_(owner), weight_(weight), outer_(std::exchange(innermost_accumulation, this)) {}

// Also out of order.
LocalAccumulation::~LocalAccumulation() {
  for (LocalAccumulation** place = &innermost_accumulation; *place != nullptr; place = &(*place)->outer_)
    if (*place == this) {
      *place = outer_;
      return;
    }
}

}  // namespace tutti
