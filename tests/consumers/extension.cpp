// SPDX-License-Identifier: Apache-2.0
// A program of somebody else that adds to the library, with what is installed of it alone: operations, which the
// library checks, of arrays, of each element and with a kernel of their own, an optimizer, a hook, and a kind of
// device, on which it trains, eagerly and by replays of a captured step. With extension.cu, in programs that say
// WITH_CUDA, they have kernels for CUDA devices too.
#include "own_operations.h"

#include <tutti/autodiff/custom_elementwise.h>
#include <tutti/autodiff/custom_function.h>
#include <tutti/autodiff/gradcheck.h>
#include <tutti/backend/custom_kernel.h>
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

Tensor squash(const Tensor& x) { return elementwise_function(Squash{0.5}, x); }
Tensor squared_distance(const Tensor& a, const Tensor& b) { return elementwise_function(SquaredDistance{}, a, b); }

void times_on_cpu(const CustomCall& call, const CpuThreads& threads) {
  const auto factor = static_cast<float>(call.parameters[0]);
  threads.parallel_for(call.outputs[0].size(), 16384, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      call.outputs[0].data<float>()[i] = call.inputs[0].data<float>()[i] * factor;
  });
}

const CustomKernel& times_kernel() {
  CustomKernel::Functions functions{.cpu = times_on_cpu};
#ifdef WITH_CUDA
  functions.cuda = times_on_cuda;
#endif
  static const CustomKernel kernel("times", functions);
  return kernel;
}

/// x, f32, times a factor, by a kernel of the program's.
Tensor times(const Tensor& x, double factor) {
  const auto run = [=](const Array& from) {
    const Array inputs[] = {from.contiguous()};
    return run_kernel(times_kernel().with({factor}), inputs, from.shape(), from.dtype());
  };
  return custom_function(
      "times", {x}, [=](std::span<const Array> inputs) { return run(inputs[0]); },
      [=](std::span<const Array>, const Array&, const Array& gradient) -> std::vector<Array> {
        return {run(gradient)};
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

/// Trains a model on `device` and gives its losses.
std::vector<float> losses(Device device, bool captured) {
  Generator random(3);
  Linear model(4, 1, random);
  model.detach_members_to(device);
  SignDescent optimizer(model.parameters(), 0.01);
  const auto forward = [&](std::span<const Tensor> batch) {
    return std::vector{mean(squared_distance(times(squash(model(batch[0])), 1.5), batch[1]))};
  };
  CapturedStep step(model, forward);
  std::vector<float> found;
  for (int i = 0; i < 20; ++i) {
    const Tensor x(random.normal({16, 4}, DType::f32, device));
    const Tensor y = tanh(sum(x, 1, true));
    if (captured) {
      found.push_back(step({x, y})[0].item<float>());
    } else {
      const Tensor batch[] = {x, y};
      const Tensor loss = forward(batch)[0];
      backward(loss);
      found.push_back(loss.item<float>());
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  return captured && step.report().replayed < 10 ? std::vector<float>{} : found;
}

/// True if it is told, with its name, that the kernel has no function for a kind of device.
bool tells_what_it_lacks() {
  const CustomKernel elsewhere("elsewhere", {.cuda = [](const CustomCall&, void*) {}});
  const Array x = Array::zeros({2}, DType::f32, cpu(0));
  try {
    run_kernel(elsewhere, {&x, 1}, x.shape(), x.dtype());
  } catch (const DeviceError& error) {
    return std::string_view(error.what()) == "[elsewhere] the kernel has no function for cpu:0: it has one for cuda";
  }
  return false;
}

}  // namespace

int main() {
  Generator random(1);
  const Tensor a = Tensor(random.normal({3, 4}, DType::f64, cpu(0))).set_requires_grad(true);
  const Tensor b = Tensor(random.normal({4}, DType::f64, cpu(0))).set_requires_grad(true);
  const auto of_both = [](const std::vector<Tensor>& x) { return squared_distance(squash(x[0]), x[1]); };
  gradcheck(of_both, {a, b});
  gradgradcheck(of_both, {a, b});
  gradcheck([](const std::vector<Tensor>& x) { return cube(x[0]); },
            {Tensor(random.normal({3, 4}, DType::f64, cpu(0))).set_requires_grad(true)});

  auto backend = std::make_unique<CountingBackend>(backend_for(cpu()));
  const CountingBackend& counted = *backend;
  const Device device{register_backend("counting", std::move(backend)), 0};
  const std::vector<float> eager = losses(device, false);
  const bool replays = eager == losses(device, true) && eager.back() < eager.front() / 2;
  std::printf("losses of replays are %s, from %g to %g; %lld kernels of this program\n", replays ? "right" : "wrong",
              static_cast<double>(eager.front()), static_cast<double>(eager.back()),
              static_cast<long long>(counted.calls.at("custom")));
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
  return replays && tells_what_it_lacks() && hook->steps == 200 && last < 0.01 && name == "counting:0" ? 0 : 1;
}
