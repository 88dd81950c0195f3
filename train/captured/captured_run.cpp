// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/captured/captured_run.h>

#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

namespace tutti {
namespace {

std::string text_of(const Array& array) {
  return fmt::format("{} {}", to_string(array.dtype()), to_string(array.shape()));
}

std::string_view text_of(GradientState state) {
  return state == GradientState::undefined     ? "undefined"
         : state == GradientState::accumulated ? "accumulated"
                                               : "reduced";
}

}  // namespace

CapturedRun::CapturedRun(const StepCall& call, const CapturedStep::Function& function, bool device_graphs)
    : capture_(call.members->front().second.device()), scale_(call.scale), synchronised_(call.step != nullptr) {
  capture_.use_graphs(device_graphs);
  trust(*call.members);
  backward_.weight = call.weight;
  record(call, function);
  capture_.draws().end();
  refuse_kept_tensors();
}

CapturedRun::Member CapturedRun::member_of(const Tensor& tensor) {
  return {tensor.array().raw_data(), gradient_node(tensor).get()};
}

void CapturedRun::trust(const NamedTensors& members) {
  for (const auto& [name, tensor] : members) {
    members_.push_back(member_of(tensor));
    capture_.trust(tensor.array());
    if (!tensor.requires_grad()) continue;
    if (const Array& place = tensor.gradient_slot().destination; place.defined()) capture_.trust(place);
  }
}

void CapturedRun::record(const StepCall& call, const CapturedStep::Function& function) {
  std::vector<Tensor> results;
  {
    const CaptureScope capturing(capture_);
    std::vector<Tensor> batch;
    for (const Tensor& given : call.batch) {
      Array buffer = Array::empty(given.shape(), given.dtype(), given.device());
      capture_.note_input(buffer);
      const CaptureSuspension off;
      buffer.copy_from(given.array());
      inputs_.push_back(buffer);
      batch.emplace_back(std::move(buffer));
    }
    results = function(batch);
    if (results.empty()) raise<CaptureError>("[captured step] the function returned nothing: its loss is missing");
    const BackwardOptions options{.gradient = {}, .scale = call.scale, .record = &backward_};
    if (call.step != nullptr)
      call.step->backward_async(results.front(), options);
    else
      backward(results.front(), options);
  }
  for (const Tensor& result : results) {
    if (result.device() != capture_.device())
      raise<CaptureError>("[captured step] an output is on {}, the step on {}", to_string(result.device()),
                          to_string(capture_.device()));
    outputs_.push_back(capture_.operand(result.array()).array);
    first_outputs_.emplace_back(result.array().copy());
  }
}

// Queued work holds what it uses.
void CapturedRun::refuse_kept_tensors() const {
  synchronize(capture_.device());
  if (const std::size_t live = capture_.live_storages(); live > inputs_.size())
    raise<CaptureError>(
        "[captured step] {} tensors that the step made are kept beyond it, and replays would write to them: return "
        "what is wanted, and write to buffers in place",
        live - inputs_.size());
}

std::string CapturedRun::misfit(const StepCall& call) const {
  if (call.batch.size() != inputs_.size())
    return fmt::format("a batch of {} tensors, captured with {}", call.batch.size(), inputs_.size());
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Array& given = call.batch[i].array();
    if (given.shape() != inputs_[i].shape() || given.dtype() != inputs_[i].dtype())
      return fmt::format("tensor {} of the batch is {}, captured with {}", i, text_of(given), text_of(inputs_[i]));
  }
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

std::string CapturedRun::outdated(const StepCall& call) const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const auto& [name, tensor] = (*call.members)[i];
    const Member now = member_of(tensor);
    if (now.data != members_[i].data) return fmt::format("\"{}\" was given another array", name);
    if (now.leaf != members_[i].leaf) return fmt::format("\"{}\" began or ceased to require a gradient", name);
  }
  if (capture_.draws().stale()) return "a random generator that the step draws from is gone";
  return {};
}

std::string CapturedRun::difference(const CapturedRun& other) const {
  if (std::string calls = capture_.tape().difference(other.capture_.tape()); !calls.empty()) return calls;
  if (backward_.finals.size() != other.backward_.finals.size()) return "other parameters got gradients";
  for (std::size_t i = 0; i < backward_.finals.size(); ++i) {
    const BackwardRecord::Final& mine = backward_.finals[i];
    const BackwardRecord::Final& its = other.backward_.finals[i];
    if (mine.leaf != its.leaf || mine.after != its.after || mine.null != its.null)
      return "gradients were final in another order";
  }
  return {};
}

std::vector<Tensor> CapturedRun::copies() const {
  std::vector<Tensor> results;
  results.reserve(outputs_.size());
  for (const Array& output : outputs_) results.emplace_back(output.copy());
  return results;
}

std::vector<Tensor> CapturedRun::replay(const StepCall& call) {
  ++replayed;
  for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i].copy_from(call.batch[i].array());
  capture_.begin_replay();
  const auto run = [this](std::size_t begin, std::size_t end) { capture_.run(begin, end); };
  const auto all = [&](const BackwardOptions& options) {
    replay_backward(backward_, options, capture_.tape().size(), run);
  };
  if (call.step != nullptr)
    call.step->backward_by(all);
  else
    all({});
  return copies();
}

}  // namespace tutti
