// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/custom_function.h>

#include <tutti/autodiff/node.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/kept_name.h>
#include <tutti/backend/raise.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace tutti {

namespace {

std::string describe(const Array& array) {
  return fmt::format("{} {} on {}", to_string(array.dtype()), to_string(array.shape()), to_string(array.device()));
}

class CustomNode final : public Node {
 public:
  CustomNode(std::string_view name, std::span<const Tensor> inputs, std::vector<Array> values, Array output,
             CustomBackward backward)
      : Node(name, inputs), saved_(Saved{{values.begin(), values.end()}, {std::move(output)}, std::move(backward)}) {}

  void backward(const Tensor& gradient, InputGradients& gradients) override {
    const OperationScope scope(name());
    if (grad_enabled()) raise<AutodiffError>("[{}] a custom function has no second derivative", name());
    std::vector<Array> values;
    for (const SavedTensor& input : saved_->inputs) {
      require_unwritten(input);
      values.push_back(input.value);
    }
    require_unwritten(saved_->output);
    const std::vector<Array> results = saved_->backward(values, saved_->output.value, gradient.array());
    if (results.size() != input_count())
      raise<AutodiffError>("[{}] backward returned {} gradients for {} inputs", name(), results.size(), input_count());
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!gradients.wanted(i) || !results[i].defined()) continue;
      const Array& input = values[i];
      if (results[i].shape() != input.shape() || results[i].dtype() != input.dtype() ||
          results[i].device() != input.device())
        raise<AutodiffError>("[{}] gradient {} is {}, its input {}", name(), i, describe(results[i]), describe(input));
      gradients.set(i, Tensor(results[i]));
    }
  }
  void release_saved() override { saved_.reset(); }
  bool released() const noexcept override { return !saved_; }
  bool reads_unknown() const noexcept override { return true; }  // the caller's function may refer to tensors

 private:
  struct Saved {
    std::vector<SavedTensor> inputs;
    SavedTensor output;
    CustomBackward backward;
  };
  std::optional<Saved> saved_;
};

}  // namespace

Tensor custom_function(std::string given_name, std::vector<Tensor> inputs, const CustomForward& forward,
                       CustomBackward backward) {
  const std::string_view name = kept_name(std::move(given_name));
  const OperationScope scope(name, inputs);
  if (!forward || !backward)
    raise<AutodiffError>("[{}] the custom function has no {}", name, forward ? "backward" : "forward");
  std::vector<Array> values;
  for (const Tensor& input : inputs) {
    if (!input.defined()) raise<AutodiffError>("[{}] input {} is undefined", name, values.size());
    values.push_back(input.array());
  }
  Array output = forward(values);
  if (!output.defined()) raise<AutodiffError>("[{}] forward returned an undefined array", name);
  if (detects_anomalies()) detail::inspect_result(name, output, inputs);
  if (!is_floating(output.dtype()) || !records(inputs)) return Tensor(std::move(output));
  auto node = std::make_shared<CustomNode>(name, inputs, std::move(values), output, std::move(backward));
  return Tensor::from_node(std::move(output), std::move(node));
}

}  // namespace tutti
