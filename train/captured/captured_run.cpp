// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/captured/captured_run.h>

#include <tutti/backend/raise.h>

namespace tutti {
namespace {

std::string_view text_of(GradientState state) {
  return state == GradientState::undefined     ? "undefined"
         : state == GradientState::accumulated ? "accumulated"
                                               : "reduced";
}

}  // namespace

CapturedRun::CapturedRun(const StepCall& call, const CapturedStep::Function& function, bool device_graphs)
    : CapturedCall(kStepWords, call.members->front().second.device(), *call.members, device_graphs),
      scale_(call.scale),
      synchronised_(call.step != nullptr) {
  for (const auto& [name, tensor] : *call.members) {
    if (!tensor.requires_grad()) continue;
    if (const Array& place = tensor.gradient_slot().destination; place.defined()) capture_.trust(place);
  }
  backward_.weight = call.weight;
  record(call, function);
  capture_.draws().end();
  refuse_kept_tensors();
}

void CapturedRun::record(const StepCall& call, const CapturedStep::Function& function) {
  std::vector<Tensor> results;
  {
    const CaptureScope capturing(capture_);
    const std::vector<Tensor> batch = take_inputs(call.batch);
    results = function(batch);
    if (results.empty()) raise<CaptureError>("[captured step] the function returned nothing: its loss is missing");
    const BackwardOptions options{.gradient = {}, .scale = call.scale, .record = &backward_};
    if (call.step != nullptr)
      call.step->backward_async(results.front(), options);
    else
      backward(results.front(), options);
  }
  take_outputs(results);
}

std::string CapturedRun::misfit(const StepCall& call) const {
  if (std::string why = other_inputs(call.batch); !why.empty()) return why;
  if ((call.step != nullptr) != synchronised_)
    return synchronised_ ? "not synchronised, captured with synchronisation" : "synchronised, captured without";
  if (call.weight != backward_.weight) return fmt::format("weight {}, captured with {}", call.weight, backward_.weight);
  if (call.scale != scale_) return fmt::format("scale {}, captured with {}", call.scale, scale_);
  for (std::size_t i = 0; i < backward_.leaves.size(); ++i) {
    const GradientSlot& slot = backward_.leaves[i].node->slot;
    if (slot.state != backward_.before[i])
      return fmt::format("a gradient is {}, captured when it was {}", text_of(slot.state),
                         text_of(backward_.before[i]));
    if (!slot.destination.defined() || slot.destination.raw_data() != backward_.places[i])
      return "gradients have another place: their layout changed, or one is held";
  }
  return {};
}

std::string CapturedRun::outdated(const StepCall& call) const { return CapturedCall::outdated(*call.members); }

std::string CapturedRun::difference(const CapturedRun& other) const {
  if (std::string calls = other_calls(other); !calls.empty()) return calls;
  if (backward_.finals.size() != other.backward_.finals.size()) return "other parameters got gradients";
  for (std::size_t i = 0; i < backward_.finals.size(); ++i) {
    const BackwardRecord::Final& mine = backward_.finals[i];
    const BackwardRecord::Final& its = other.backward_.finals[i];
    if (mine.leaf != its.leaf || mine.after != its.after || mine.null != its.null)
      return "gradients were final in another order";
  }
  return {};
}

std::vector<Tensor> CapturedRun::replay(const StepCall& call) {
  begin_replay(call.batch);
  const auto run = [this](std::size_t begin, std::size_t end) { capture_.run(begin, end); };
  const auto all = [&](const BackwardOptions& options) {
    replay_backward(backward_, options, capture_.tape().size(), run);
  };
  if (call.step != nullptr)
    call.step->backward_by(all);
  else
    all({});
  return outputs();
}

}  // namespace tutti
