// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/modules/module_hooks.h>

#include <tutti/autodiff/node.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/modules/module_call.h>

#include <utility>

namespace tutti {

namespace {

// The same value as an operation of its own, whose gradient hooks can see apart from the tensor's other uses.
Tensor passed_on(std::string_view name, const Tensor& x) {
  const Tensor inputs[] = {x};
  return record(name, x.array(), inputs,
                [] { return [](const auto&, const Tensor& dy, InputGradients& gradients) { gradients.set(0, dy); }; });
}

struct OutsideOperations {
  OutsideOperations() noexcept : outer(std::exchange(detail::error_context, nullptr)) {}
  ~OutsideOperations() { detail::error_context = outer; }
  OutsideOperations(const OutsideOperations&) = delete;
  OutsideOperations& operator=(const OutsideOperations&) = delete;

  const detail::ErrorContext* outer;
};

std::vector<Tensor> before(const ModuleHooks::Lists& lists, const Module& module, std::vector<Tensor> inputs) {
  lists.before->for_each([&](const std::shared_ptr<ForwardPreHook>& hook) {
    std::vector<Tensor> replaced = (*hook)(module, inputs);
    if (replaced.empty()) return;
    if (replaced.size() != inputs.size())
      raise("[module] a forward pre-hook returned {} inputs in place of {}", replaced.size(), inputs.size());
    inputs = std::move(replaced);
  });
  return inputs;
}

}  // namespace

ModuleHooks::Lists& ModuleHooks::lists() {
  if (refusal_ != nullptr) raise("[module] hooks would never run here: {}", refusal_);
  if (!lists_) lists_ = std::make_shared<Lists>();
  return *lists_;
}

Tensor call_hooked(const Module& module, std::vector<Tensor> inputs,
                   const std::function<Tensor(std::span<const Tensor>)>& forward) {
  const OutsideOperations outside;  // hooks are users' programs, also where a layer is one operation
  const std::shared_ptr<ModuleHooks::Lists> lists = module.hooks();
  inputs = before(*lists, module, std::move(inputs));
  for (std::size_t i = 0; i < inputs.size() && !lists->input_gradient->empty(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
    inputs[i] = passed_on("module_input", inputs[i]);
    if (!inputs[i].requires_grad()) continue;  // under NoGrad
    lists->input_gradient->for_each([&](const std::shared_ptr<BackwardHook>& hook) {
      inputs[i].register_hook([hook, &module, i](const Tensor& gradient) { return (*hook)(module, i, gradient); });
    });
  }
  Tensor output = forward(inputs);
  lists->after->for_each([&](const std::shared_ptr<ForwardHook>& hook) {
    if (Tensor replaced = (*hook)(module, inputs, output); replaced.defined()) output = std::move(replaced);
  });
  if (lists->output_gradient->empty() || !output.requires_grad()) return output;
  output = passed_on("module_output", output);
  if (!output.requires_grad()) return output;
  lists->output_gradient->for_each([&](const std::shared_ptr<BackwardPreHook>& hook) {
    output.register_hook([hook, &module](const Tensor& gradient) { return (*hook)(module, gradient); });
  });
  return output;
}

}  // namespace tutti
