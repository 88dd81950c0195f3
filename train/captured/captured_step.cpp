// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/captured_step.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/nn/captured/capture_cache.h>
#include <tutti/train/captured/captured_run.h>

#include <utility>

namespace tutti {
namespace {

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
      : members_(members_of(model)), function_(std::move(function)), runs_(kStepWords, options) {
    for (const auto& [name, tensor] : members_) places_.emplace_back(tensor);
  }

  std::vector<Tensor> take(std::span<const Tensor> batch, Step* step, double scale = 1.0) {
    check(batch, step);
    const BackwardOptions unobserved;
    const double weight = step != nullptr ? step->root_weight() : weight_of(unobserved);
    const Call call{{batch, step, weight, scale, &members_}, function_, runs_.options().device_graphs};
    const OfferedPlaces places(places_);
    runs_.drop_outdated(call);
    if (weight * scale == 0.0) return runs_.run_eagerly(call, "its weight is 0: there is nothing to compute");
    return runs_.take(call);
  }

  CaptureCache<CapturedRun>& runs() { return runs_; }
  const CaptureCache<CapturedRun>& runs() const { return runs_; }

 private:
  /// A step as CaptureCache takes it.
  struct Call {
    StepCall step;
    const Function& function;
    bool device_graphs;

    std::span<const Tensor> batch() const { return step.batch; }
    std::string outdated(const CapturedRun& run) const { return run.outdated(step); }
    std::string misfit(const CapturedRun& run) const { return run.misfit(step); }
    std::string difference(const CapturedRun& a, const CapturedRun& b) const { return a.difference(b); }
    std::unique_ptr<CapturedRun> capture() const {
      return std::make_unique<CapturedRun>(step, function, device_graphs);
    }
    std::vector<Tensor> replay(CapturedRun& run) const { return run.replay(step); }
    std::vector<Tensor> run() const {
      std::vector<Tensor> results = function(step.batch);
      if (results.empty()) raise<CaptureError>("[captured step] the function returned nothing: its loss is missing");
      if (step.step != nullptr)
        step.step->backward_async(results.front());
      else
        backward(results.front(), {.scale = step.scale});
      for (Tensor& result : results) result = result.detach();
      return results;
    }
  };

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

  NamedTensors members_;
  Function function_;
  std::vector<GradientPlace> places_;
  CaptureCache<CapturedRun> runs_;
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

void CapturedStep::check_soon() { state_->runs().check_soon(kReplaysBeforeCheckSoon); }
void CapturedStep::invalidate(std::string reason) { state_->runs().invalidate(std::move(reason)); }
CapturedStep::Report CapturedStep::report() const { return state_->runs().report(); }

}  // namespace tutti
