// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/captured_forward.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/captured/capture_cache.h>

#include <utility>

namespace tutti {
namespace {

constexpr CaptureWords kWords{"captured forward", "call"};

class ForwardRun : public CapturedCall {
 public:
  ForwardRun(std::span<const Tensor> inputs, const NamedTensors& members, const CapturedForward::Function& function,
             bool device_graphs)
      : CapturedCall(kWords, inputs.front().device(), members, device_graphs), autocast_(autocast_dtype()) {
    record(inputs, function);
    capture_.draws().end();
    refuse_kept_tensors();
    refuse_kept_inputs();
  }

  using CapturedCall::other_calls;
  using CapturedCall::outdated;
  std::string misfit(std::span<const Tensor> inputs) const {
    if (const Device device = inputs.front().device(); device != capture_.device())
      return fmt::format("inputs on {}, captured on {}", to_string(device), to_string(capture_.device()));
    if (autocast_dtype() != autocast_)
      return fmt::format("an Autocast to {}, captured with one to {}", to_string(autocast_dtype()),
                         to_string(autocast_));
    return other_inputs(inputs);
  }
  std::vector<Tensor> replay(std::span<const Tensor> inputs) {
    begin_replay(inputs);
    capture_.run(0, capture_.tape().size());
    return outputs();
  }

 private:
  void record(std::span<const Tensor> inputs, const CapturedForward::Function& function) {
    std::vector<Tensor> results;
    {
      const CaptureScope capturing(capture_);
      results = function(take_inputs(inputs));
    }
    take_outputs(results);
  }

  DType autocast_;
};

/// Tells members of a model from others that took their places, in order of declaration.
class MemberIdentities : public MemberVisitor {
 public:
  explicit MemberIdentities(Module& model) { model.visit(*this); }
  void parameter(std::string_view, Tensor& tensor) override { found_.push_back(tensor.identity()); }
  void buffer(std::string_view, Tensor& tensor) override { found_.push_back(tensor.identity()); }
  void module(std::string_view, Module& part) override { part.visit(*this); }
  bool operator==(const MemberIdentities& other) const { return found_ == other.found_; }

 private:
  std::vector<const void*> found_;
};

Tensor copy_of(const Tensor& x) { return Tensor(x.array().copy()); }

/// On copies, as a capture sees them: results that are views of the inputs, or of weights, are copied as well.
std::vector<Tensor> run_on_copies(const CapturedForward::Function& function, std::span<const Tensor> inputs) {
  std::vector<Tensor> copies;
  for (const Tensor& input : inputs) copies.push_back(copy_of(input));
  std::vector<Tensor> results = function(copies);
  for (Tensor& result : results) result = copy_of(result);
  return results;
}

}  // namespace

class CapturedForward::State {
 public:
  State(Module& model, Function function, const CaptureOptions& options)
      : model_(model), function_(std::move(function)), runs_(kWords, options), identities_(model) {
    members_ = model.named_members();
  }

  std::vector<Tensor> take(std::span<const Tensor> inputs) {
    const Inference inference;
    check(inputs);
    if (active_capture() != nullptr) return run_on_copies(function_, inputs);  // a part of that capture
    look_at_members();
    const Call call{inputs, members_, function_, runs_.options().device_graphs};
    runs_.drop_outdated(call);
    return runs_.take(call);
  }

  CaptureCache<ForwardRun>& runs() { return runs_; }

 private:
  /// A call as CaptureCache takes it.
  struct Call {
    std::span<const Tensor> inputs;
    const NamedTensors& members;
    const Function& function;
    bool device_graphs;

    std::span<const Tensor> batch() const { return inputs; }
    std::string outdated(const ForwardRun& run) const { return run.outdated(members); }
    std::string misfit(const ForwardRun& run) const { return run.misfit(inputs); }
    std::string difference(const ForwardRun& a, const ForwardRun& b) const { return a.other_calls(b); }
    std::unique_ptr<ForwardRun> capture() const {
      return std::make_unique<ForwardRun>(inputs, members, function, device_graphs);
    }
    std::vector<Tensor> replay(ForwardRun& run) const { return run.replay(inputs); }
    std::vector<Tensor> run() const { return run_on_copies(function, inputs); }
  };

  void look_at_members() {
    MemberIdentities now(model_);
    if (now == identities_) return;
    NamedTensors members = model_.named_members();
    runs_.invalidate("members of the model are others");
    identities_ = std::move(now);
    members_ = std::move(members);
  }

  void check(std::span<const Tensor> inputs) const {
    if (inputs.empty()) raise<CaptureError>("[captured forward] called without inputs");
    const Device device = inputs.front().device();
    for (std::size_t i = 1; i < inputs.size(); ++i)
      if (inputs[i].device() != device)
        raise<CaptureError>("[captured forward] input {} is on {}, the first on {}", i, to_string(inputs[i].device()),
                            to_string(device));
    for (const auto& [name, tensor] : members_)
      if (tensor.device() != device)
        raise<CaptureError>("[captured forward] \"{}\" is on {}, the inputs on {}", name, to_string(tensor.device()),
                            to_string(device));
  }

  Module& model_;
  Function function_;
  CaptureCache<ForwardRun> runs_;
  MemberIdentities identities_;
  NamedTensors members_;
};

CapturedForward::CapturedForward(Layer& model, CaptureOptions options)
    : CapturedForward(
          model,
          [&model](std::span<const Tensor> inputs) {
            if (inputs.size() != 1)
              raise<CaptureError>("[captured forward] the model takes one input, not {}: give a function",
                                  inputs.size());
            return std::vector{model(inputs.front())};
          },
          options) {}
CapturedForward::CapturedForward(Module& model, Function function, CaptureOptions options)
    : state_(std::make_unique<State>(model, std::move(function), options)) {}
CapturedForward::~CapturedForward() = default;
CapturedForward::CapturedForward(CapturedForward&&) noexcept = default;

std::vector<Tensor> CapturedForward::operator()(std::span<const Tensor> inputs) { return state_->take(inputs); }

Tensor CapturedForward::operator()(const Tensor& x) {
  std::vector<Tensor> outputs = state_->take({&x, 1});
  if (outputs.empty()) raise<CaptureError>("[captured forward] the function returned nothing");
  return std::move(outputs.front());
}

void CapturedForward::invalidate(std::string reason) { state_->runs().invalidate(std::move(reason)); }
CaptureReport CapturedForward::report() const { return state_->runs().report(); }

}  // namespace tutti
