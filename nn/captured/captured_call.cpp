// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/captured/captured_call.h>

#include <tutti/autodiff/tensor/tensor_access.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

namespace tutti {
namespace {

std::string text_of(const Array& array) {
  return fmt::format("{} {}", to_string(array.dtype()), to_string(array.shape()));
}

/// The same elements of the same memory.
bool same_place(const Array& a, const Array& b) {
  return a.raw_data() == b.raw_data() && a.dtype() == b.dtype() && a.shape() == b.shape() && a.strides() == b.strides();
}

}  // namespace

void check_options(const CaptureWords& words, const CaptureOptions& options) {
  if (options.check_every < 0) raise<Error>("[{}] check_every is {}: below 0", words.name, options.check_every);
}

void CapturedCall::refuse_literals(const CaptureWords& words, std::span<const Tensor> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].is_weak_scalar())
      raise<CaptureError>(
          "[{}] tensor {} of the {}'s is a literal, which takes the type of what it meets: give it one, as "
          "full({{}}, 0.1, {{.dtype = DType::f32}})",
          words.name, i, words.call);
}

void raise_unsteady(const CaptureWords& words, std::int64_t replayed, const std::string& parted) {
  if (replayed > 0)
    raise<CaptureError>(
        "[{}] it does something else than in the {} {}s before, which were replayed: {}. Call invalidate() where it "
        "changes, or make what changes an input, as a tensor",
        words.name, replayed, words.call, parted);
  raise<CaptureError>(
      "[{}] it does not do the same each time: {}. What changes from {} to {} must be among its inputs, as a tensor",
      words.name, parted, words.call, words.call);
}

CapturedCall::CapturedCall(const CaptureWords& words, Device device, const NamedTensors& members, bool device_graphs)
    : capture_(device), words_(words) {
  capture_.use_graphs(device_graphs);
  for (const auto& [name, tensor] : members) {
    members_.push_back(member_of(tensor));
    capture_.trust(tensor.array());
  }
}

CapturedCall::Member CapturedCall::member_of(const Tensor& tensor) {
  return {tensor.array(), gradient_node(tensor).get()};
}

std::vector<Tensor> CapturedCall::take_inputs(std::span<const Tensor> inputs) {
  std::vector<Tensor> seen;
  for (const Tensor& given : inputs) {
    Array buffer = Array::empty(given.shape(), given.dtype(), given.device());
    capture_.note_input(buffer);
    const CaptureSuspension off;
    buffer.copy_from(given.array());
    inputs_.push_back(buffer);
    seen.emplace_back(std::move(buffer));
  }
  return seen;
}

void CapturedCall::take_outputs(const std::vector<Tensor>& results) {
  for (const Tensor& result : results) {
    if (result.device() != capture_.device())
      raise<CaptureError>("[{}] an output is on {}, the {} on {}", words_.name, to_string(result.device()), words_.call,
                          to_string(capture_.device()));
    outputs_.push_back(capture_.operand(result.array()));
    first_outputs_.emplace_back(result.array().copy());
  }
}

std::string CapturedCall::other_inputs(std::span<const Tensor> inputs) const {
  if (inputs.size() != inputs_.size())
    return fmt::format("a batch of {} tensors, captured with {}", inputs.size(), inputs_.size());
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Array& given = inputs[i].array();
    if (given.shape() != inputs_[i].shape() || given.dtype() != inputs_[i].dtype())
      return fmt::format("tensor {} of the batch is {}, captured with {}", i, text_of(given), text_of(inputs_[i]));
  }
  return {};
}

// Queued work holds what it uses.
void CapturedCall::refuse_kept_tensors() const {
  synchronize(capture_.device());
  if (const std::size_t live = capture_.live_storages(); live > inputs_.size())
    raise<CaptureError>(
        "[{}] {} tensors that the {} made are kept beyond it, and replays would write to them: return what is wanted, "
        "and write to buffers in place",
        words_.name, live - inputs_.size(), words_.call);
}

void CapturedCall::refuse_kept_inputs() const {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].storage().use_count() > 1)
      raise<CaptureError>("[{}] input {} is kept beyond the {}, and replays would write to it", words_.name, i,
                          words_.call);
}

std::string CapturedCall::outdated(const NamedTensors& members) const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const auto& [name, tensor] = members[i];
    const Member now = member_of(tensor);
    if (!same_place(now.array, members_[i].array)) return fmt::format("\"{}\" was given another array", name);
    if (now.leaf != members_[i].leaf) return fmt::format("\"{}\" began or ceased to require a gradient", name);
  }
  if (capture_.draws().stale()) return fmt::format("a random generator that the {} draws from is gone", words_.call);
  return {};
}

std::string CapturedCall::other_calls(const CapturedCall& other) const {
  if (std::string calls = capture_.tape().difference(other.capture_.tape()); !calls.empty()) return calls;
  return outputs_ == other.outputs_ ? "" : "it returned other tensors, or other parts of them";
}

void CapturedCall::begin_replay(std::span<const Tensor> inputs) {
  ++replayed;
  for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i].copy_from(inputs[i].array());
  capture_.begin_replay();
}

std::vector<Tensor> CapturedCall::outputs() const {
  std::vector<Tensor> results;
  results.reserve(outputs_.size());
  for (const TapeOperand& output : outputs_) results.emplace_back(output.array.copy());
  return results;
}

}  // namespace tutti
