// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/custom_function.h>

#include <tutti/autodiff/node.h>
#include <tutti/backend/error.h>

#include <memory>
#include <optional>
#include <utility>

namespace tutti {

namespace {

struct NameHolder {
  std::string name;
};

// NameHolder is the first base, so that the name lives when Node takes a view of it.
class CustomNode final : private NameHolder, public Node {
 public:
  CustomNode(std::string name, std::span<const Tensor> inputs, std::vector<Array> values, Array output,
             CustomBackward backward)
      : NameHolder{std::move(name)},
        Node(NameHolder::name, inputs),
        saved_(Saved{{values.begin(), values.end()}, {std::move(output)}, std::move(backward)}) {}

  void backward(const Tensor& gradient, InputGradients& gradients) override {
    if (grad_enabled()) raise<AutodiffError>("[{}] a custom function has no second derivative", NameHolder::name);
    std::vector<Array> values;
    for (const SavedTensor& input : saved_->inputs) {
      require_unwritten(input);
      values.push_back(input.value);
    }
    require_unwritten(saved_->output);
    const std::vector<Array> results = saved_->backward(values, saved_->output.value, gradient.array());
    if (results.size() != input_count())
      raise<AutodiffError>("[{}] backward returned {} gradients for {} inputs", NameHolder::name, results.size(),
                           input_count());
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!gradients.wanted(i) || !results[i].defined()) continue;
      const Array& input = values[i];
      if (results[i].shape() != input.shape() || results[i].dtype() != input.dtype())
        raise<AutodiffError>("[{}] gradient {} is {} {}, its input {} {}", NameHolder::name, i,
                             to_string(results[i].shape()), to_string(results[i].dtype()), to_string(input.shape()),
                             to_string(input.dtype()));
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

Tensor custom_function(std::string name, std::vector<Tensor> inputs, const CustomForward& forward,
                       CustomBackward backward) {
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
  if (!records(inputs)) return Tensor(std::move(output));
  auto node = std::make_shared<CustomNode>(std::move(name), inputs, std::move(values), output, std::move(backward));
  return Tensor::from_node(std::move(output), std::move(node));
}

}  // namespace tutti
