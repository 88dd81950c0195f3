// SPDX-License-Identifier: Apache-2.0
// A program of somebody else that adds to the library, with what is installed of it alone: an operation, which the
// library checks, an optimizer, a hook, and a kind of device, on which it trains.
#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/gradcheck.h>
#include <tutti/backend/forwarding_backend.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/tutti.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace tutti;

namespace {

/// x³, on arrays.
Tensor cube(const Tensor& x) {
  return custom_function(
      "cube", {x},
      [](std::span<const Array> inputs) {
        return apply(elementwise::Multiply{}, apply(elementwise::Multiply{}, inputs[0], inputs[0]), inputs[0]);
      },
      [](std::span<const Array> inputs, const Array&, const Array& gradient) -> std::vector<Array> {
        const Array square = apply(elementwise::Multiply{}, inputs[0], inputs[0]);
        const Array three = Array::full({}, 3.0, square.dtype(), square.device());
        return {apply(elementwise::Multiply{}, apply(elementwise::Multiply{}, square, three), gradient)};
      });
}

/// Steps of one length, whatever the gradient's.
class SignDescent final : public Optimizer {
 public:
  using Optimizer::Optimizer;
  std::string kind() const override { return "SignDescent"; }

 protected:
  void update(std::span<const Update> updates) override {
    for (const Update& each : updates) {
      const Array rate =
          Array::full({}, -learning_rate(group_of(each.position)), each.parameter.dtype(), each.parameter.device());
      const Array change =
          tutti::apply(elementwise::Multiply{}, tutti::apply(elementwise::Sign{}, each.gradient), rate);
      const Array next = tutti::apply(elementwise::Add{}, each.parameter, change);
      backend_for(each.parameter.device()).copy(next, each.parameter);
    }
  }
  std::vector<std::string> state_names(std::size_t) const override { return {}; }
};

/// The calls of each kernel of another kind of device.
class CountingBackend final : public ForwardingBackend<CountingBackend> {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::map<std::string_view, std::int64_t> calls;

  template <class Kernel, class... Arguments> void call(Kernel, const Arguments&... arguments) {
    ++calls[Kernel::name];
    Kernel::run(inner(), arguments...);
  }
};

class CountSteps final : public Hook {
 public:
  std::int64_t steps = 0;
  void after_step(const StepReport&) override { ++steps; }
};

}  // namespace

int main() {
  Generator random(1);
  gradcheck([](const std::vector<Tensor>& x) { return cube(x[0]); },
            {Tensor(random.normal({3, 4}, DType::f64, cpu(0))).set_requires_grad(true)});

  auto backend = std::make_unique<CountingBackend>(backend_for(cpu()));
  const CountingBackend& counted = *backend;
  const Device device{register_backend("counting", std::move(backend)), 0};
  Linear model(4, 1, random);
  model.detach_members_to(device);
  const Tensor x(random.normal({64, 4}, DType::f32, device));
  const BatchStream data(Examples{x.array(), sum(x, 1, true).array()}, {.batch = 16, .devices = {device}});
  SignDescent optimizer(model.parameters(), 0.01);
  const auto stream = data.stream(0);
  EagerTrainer<Batch> trainer(model, optimizer, *stream,
                              [&](const Batch& batch) -> Losses {
                                return {{"loss", mean(square(cube(model(batch.inputs) - batch.targets)))}};
                              },
                              {.device = device});
  const auto hook = std::make_shared<CountSteps>();
  trainer.register_hook(hook);
  trainer.train({.steps = 200});
  const double last = trainer.storage().latest("total_loss")->value;
  const std::string name = to_string(device);
  std::printf("loss %g on %s after %lld steps, %lld products\n", last, name.c_str(),
              static_cast<long long>(hook->steps), static_cast<long long>(counted.calls.at("matmul")));
  return hook->steps == 200 && last < 0.01 && name == "counting:0" ? 0 : 1;
}
