// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/captured_step.h>

#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/train/captured/captured_run.h>

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

/// What tells batches apart before anything was captured.
using BatchForm = std::vector<std::pair<Shape, DType>>;

BatchForm form_of(std::span<const Tensor> batch) {
  BatchForm form;
  for (const Tensor& tensor : batch) form.emplace_back(tensor.shape(), tensor.dtype());
  return form;
}

/// Memory of its own for the gradient of a parameter that is in no group, so that it is at the same address in every
/// step. Only while the step runs is it where autodiff wants the gradient.
class GradientPlace {
 public:
  explicit GradientPlace(Tensor parameter) : parameter_(std::move(parameter)) {}

  void offer() {
    if (!parameter_.requires_grad()) return;
    GradientSlot& slot = parameter_.gradient_slot();
    if (slot.attachment) return;  // it has a place in the group's arena
    if (!memory_.defined() || is_held(slot))
      memory_ = Array::empty(parameter_.shape(), parameter_.dtype(), parameter_.device());
    slot.destination = memory_;
    if (slot.state != GradientState::accumulated || slot.gradient.storage() == memory_.storage()) return;
    memory_.copy_from(slot.gradient);
    slot.gradient = memory_;
  }
  void withdraw() noexcept {
    if (!parameter_.requires_grad() || !memory_.defined()) return;
    GradientSlot& slot = parameter_.gradient_slot();
    if (!slot.attachment) slot.destination = Array();
  }

 private:
  // Somebody was given the gradient: it is his. What the stream still has to do does not count.
  bool is_held(const GradientSlot& slot) const {
    const long own = slot.gradient.storage() == memory_.storage() ? 2 : 1;
    if (memory_.storage().use_count() <= own) return false;
    synchronize(memory_.device());
    return memory_.storage().use_count() > own;
  }

  Tensor parameter_;
  Array memory_;
};

constexpr std::int64_t kReplaysBeforeCheckSoon = 100;

class OfferedPlaces {
 public:
  explicit OfferedPlaces(std::vector<GradientPlace>& places) : places_(places) {
    for (GradientPlace& place : places_) place.offer();
  }
  ~OfferedPlaces() {
    for (GradientPlace& place : places_) place.withdraw();
  }
  OfferedPlaces(const OfferedPlaces&) = delete;
  OfferedPlaces& operator=(const OfferedPlaces&) = delete;

 private:
  std::vector<GradientPlace>& places_;
};

NamedTensors members_of(Module& model) {
  NamedTensors members = model.named_members();
  if (members.empty()) raise<CaptureError>("[captured step] the model has no parameters");
  const Device device = members.front().second.device();
  for (const auto& [name, tensor] : members) {
    if (tensor.device() != device)
      raise<CaptureError>("[captured step] \"{}\" is on {}, \"{}\" on {}: a captured step works on one device", name,
                          to_string(tensor.device()), members.front().first, to_string(device));
    if (tensor.has_sparse_grad())
      raise<CaptureError>(
          "[captured step] \"{}\" has sparse gradients, whose rows the host counts in each step: mark it dense with "
          "set_sparse_grad(false)",
          name);
  }
  return members;
}

}  // namespace

class CapturedStep::State {
 public:
  State(Module& model, Function function, CapturedStepOptions options)
      : members_(members_of(model)), function_(std::move(function)), options_(options) {
    if (options_.check_every < 0) raise<Error>("[captured step] check_every is {}: below 0", options_.check_every);
    for (const auto& [name, tensor] : members_) places_.emplace_back(tensor);
  }

  std::vector<Tensor> take(std::span<const Tensor> batch, Step* step, double scale = 1.0) {
    check(batch, step);
    const BackwardOptions unobserved;
    const double weight = step != nullptr ? step->root_weight() : weight_of(unobserved);
    const StepCall call{batch, step, weight, scale, &members_};
    const OfferedPlaces places(places_);
    drop_outdated(call);
    if (call.weight * call.scale == 0.0) return run_eagerly(call, "its weight is 0: there is nothing to compute");
    if (CapturedRun* run = find(call)) return run->confirmed && !check_due(*run) ? replay(*run, call) : confirm(call);
    if (BatchForm form = form_of(batch); std::ranges::find(seen_, form) == seen_.end()) {
      seen_.push_back(std::move(form));
      return run_eagerly(call, "the first batch of these shapes");
    }
    return capture(call);
  }

  void invalidate(std::string reason) {
    runs_.clear();
    report_.reason = std::move(reason);
  }

  void check_soon() {
    for (const auto& run : runs_)
      if (run->replayed >= kReplaysBeforeCheckSoon) run->check_after = run->replayed;
  }

  Report report() const {
    Report report = report_;
    for (const auto& run : runs_) {
      report.memory += run->memory_bytes();
      report.graphs += run->graphs();
    }
    return report;
  }

 private:
  Device device() const { return members_.front().second.device(); }

  void check(std::span<const Tensor> batch, const Step* step) const {
    if (step != nullptr && step->device() != device())
      raise<CaptureError>("[captured step] the model is on {}, the step of {}", to_string(device()),
                          to_string(step->device()));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (batch[i].device() != device())
        raise<CaptureError>("[captured step] the model is on {}, tensor {} of the batch on {}", to_string(device()), i,
                            to_string(batch[i].device()));
      if (batch[i].requires_grad())
        raise<CaptureError>("[captured step] tensor {} of the batch requires a gradient: only parameters may", i);
    }
  }

  void drop_outdated(const StepCall& call) {
    std::erase_if(runs_, [&](const auto& run) {
      std::string why = run->outdated(call);
      if (why.empty()) return false;
      report_.reason = std::move(why);
      return true;
    });
  }

  // The last used is first.
  CapturedRun* find(const StepCall& call) {
    std::string nearest;
    for (auto run = runs_.begin(); run != runs_.end(); ++run) {
      std::string why = (*run)->misfit(call);
      if (why.empty()) {
        std::rotate(runs_.begin(), run, run + 1);
        return runs_.front().get();
      }
      if (nearest.empty()) nearest = std::move(why);
    }
    if (!nearest.empty()) report_.reason = std::move(nearest);
    return nullptr;
  }

  std::vector<Tensor> run_eagerly(const StepCall& call, const char* reason) {
    report_.reason = reason;
    ++report_.eager;
    std::vector<Tensor> results = function_(call.batch);
    if (results.empty()) raise<CaptureError>("[captured step] the function returned nothing: its loss is missing");
    if (call.step != nullptr)
      call.step->backward_async(results.front());
    else
      backward(results.front(), {.scale = call.scale});
    for (Tensor& result : results) result = result.detach();
    return results;
  }

  std::vector<Tensor> capture(const StepCall& call) {
    ++report_.captured;
    runs_.insert(runs_.begin(), std::make_unique<CapturedRun>(call, function_, options_.device_graphs));
    if (runs_.size() > std::max<std::size_t>(1, options_.most_captures)) runs_.pop_back();
    return runs_.front()->take_first_outputs();
  }

  bool check_due(const CapturedRun& run) const { return options_.check_every > 0 && run.replayed >= run.check_after; }

  // Once more, to see whether it does the same again.
  std::vector<Tensor> confirm(const StepCall& call) {
    auto before = std::move(runs_.front());
    runs_.erase(runs_.begin());
    std::vector<Tensor> results = capture(call);
    if (const std::string parted = before->difference(*runs_.front()); !parted.empty()) {
      runs_.erase(runs_.begin());
      if (before->confirmed)
        raise<CaptureError>(
            "[captured step] it does something else than in the {} steps before, which were replayed: {}. Call "
            "invalidate() where it changes, or make what changes an input, as a tensor",
            before->replayed, parted);
      raise<CaptureError>(
          "[captured step] it does not do the same each time: {}. What changes from step to step must be among its "
          "inputs, as a tensor",
          parted);
    }
    if (before->confirmed) {  // its graphs are made
      before->check_after = std::min(2 * std::exchange(before->replayed, 0), options_.check_every);
      runs_.front() = std::move(before);
    }
    runs_.front()->confirmed = true;
    report_.reason = "captured once more, to see that it does the same";
    return results;
  }

  std::vector<Tensor> replay(CapturedRun& run, const StepCall& call) {
    ++report_.replayed;
    return run.replay(call);
  }

  NamedTensors members_;
  Function function_;
  CapturedStepOptions options_;
  std::vector<GradientPlace> places_;
  std::vector<BatchForm> seen_;
  std::vector<std::unique_ptr<CapturedRun>> runs_;
  Report report_;
};

CapturedStep::CapturedStep(Module& model, Function function, CapturedStepOptions options)
    : state_(std::make_unique<State>(model, std::move(function), options)) {}
CapturedStep::~CapturedStep() = default;
CapturedStep::CapturedStep(CapturedStep&&) noexcept = default;

std::vector<Tensor> CapturedStep::operator()(std::span<const Tensor> batch, double scale) {
  return state_->take(batch, nullptr, scale);
}

std::vector<Tensor> CapturedStep::operator()(std::span<const Tensor> batch, Step& step) {
  std::vector<Tensor> results = run_async(batch, step);
  step.join();
  return results;
}

std::vector<Tensor> CapturedStep::run_async(std::span<const Tensor> batch, Step& step) {
  return state_->take(batch, &step);
}

void CapturedStep::check_soon() { state_->check_soon(); }
void CapturedStep::invalidate(std::string reason) { state_->invalidate(std::move(reason)); }
CapturedStep::Report CapturedStep::report() const { return state_->report(); }

}  // namespace tutti
