// SPDX-License-Identifier: Apache-2.0
// A program of somebody else that has an engine of its own, and asks the library's suites whether it, and a kind of
// device, are as a group and a model rely on; then two devices train with it.
#include <tutti/backend/forwarding_backend.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/collectives/engine_task.h>
#include <tutti/distributed/communicator.h>
#include <tutti/testing/conformance.h>
#include <tutti/tutti.h>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace tutti;

namespace {

/// Reduces on the thread that launches, at once.
class SerialEngine final : public Communicator {
 public:
  std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest request) override {
    if (!enabled()) return std::make_shared<FinishedTask>();
    CollectiveRequest sum{.denominator = request.denominator, .inputs = {}, .outputs = {}, .ready = {}, .parts = {}};
    for (const Event& event : request.ready)
      if (event.recorded()) event.synchronize();
    const bool is_narrow = request.wire != GradientWire::native;
    const DType wire = request.wire == GradientWire::bf16 ? DType::bf16 : DType::f16;
    const auto number = [](double value) { return Array::full({}, value, DType::f32, cpu()); };
    const auto sent = [&](const Array& gradient) {  // through 16 bits
      const Array scaled = apply(elementwise::Multiply{}, gradient.to(cpu()), number(request.wire_scale));
      return scaled.cast(wire).cast(DType::f32);
    };
    CollectivePart part{request.slices.front().gradient.size(), {}, {}};
    for (std::size_t i = 0; i < request.slices.size(); ++i) {
      const AllReduceSlice& slice = request.slices[i];
      sum.inputs.push_back(is_narrow ? sent(slice.gradient) : slice.gradient);
      sum.outputs.push_back(slice.gradient);
      if (slice.contributes) part.sources.push_back({i, 0, request.number_of(i)});
      part.targets.push_back({i, 0});
      synchronize(cpu());
    }
    if (is_narrow) sum.denominator *= request.wire_scale;
    combine(sum, part, 0, part.count);
    if (is_narrow)
      for (const Array& result : sum.outputs) {
        Array rounded = result;
        rounded.copy_from(result.cast(wire).cast(DType::f32));
        synchronize(result.device());
      }
    return std::make_shared<FinishedTask>();
  }

  std::shared_ptr<CollectiveTask> collective(CollectiveRequest request) override {
    for (const Event& event : request.ready)
      if (event.recorded()) event.synchronize();
    for (const CollectivePart& part : request.parts) combine(request, part, 0, part.count);
    return std::make_shared<FinishedTask>();
  }
};

/// The CPU, of which one kernel is wrong if it is told so.
class WrongBackend final : public ForwardingBackend<WrongBackend> {
 public:
  using ForwardingBackend::ForwardingBackend;
  bool is_wrong = false;

  template <class Kernel, class... Arguments> void call(Kernel, const Arguments&... arguments) {
    Kernel::run(inner(), arguments...);
    if (is_wrong && std::string(Kernel::name) == "cumsum")
      kernel::for_each_output<Kernel>(
          [](const Array& output) {
            Array wrong = output;
            wrong.fill(7.0);
          },
          arguments...);
  }
};

std::size_t told(const char* what, const testing::Conformance& found) {
  std::printf("%s: %lld checks, %zu faults\n", what, static_cast<long long>(found.checks), found.faults.size());
  for (const std::string& fault : found.faults) std::printf("  %s\n", fault.c_str());
  for (const std::string& part : found.left_out) std::printf("  not checked: %s\n", part.c_str());
  return found.faults.size();
}

double trained() {
  const std::vector<Device> devices{cpu(0), cpu(1)};
  GradientSync sync(devices, {}, std::make_unique<SerialEngine>());
  Generator random(1);
  auto replicas = sync.replicate(Linear(4, 1, random));
  std::vector<double> losses(2);
  on_every_device(sync, [&](std::size_t d) {
    Generator own(d + 7);
    Sgd optimizer(replicas[d].parameters(), 0.1);
    for (int i = 0; i < 300; ++i) {
      const Tensor x = normal({16, 4}, own, {.device = devices[d]});
      optimizer.zero_grad();
      const Tensor loss = mean(square(replicas[d](x) - sum(x, 1, true)));
      auto step = sync.step(devices[d]);
      step.backward(loss);
      optimizer.step();
      losses[d] = loss.item();
    }
    sync.leave(devices[d]);
  });
  return losses[0] + losses[1];
}

}  // namespace

int main() {
  const std::vector<Device> devices{cpu(0), cpu(1), cpu(2), cpu(3)};
  const std::size_t of_engine =
      told("engine", testing::check_communicator([](auto) { return std::make_unique<SerialEngine>(); }, devices));
  auto backend = std::make_unique<WrongBackend>(backend_for(cpu()));
  WrongBackend& own = *backend;
  const Device device{register_backend("own", std::move(backend)), 0};
  const std::size_t of_device = told("device", testing::check_backend(device));
  own.is_wrong = true;
  const bool is_found = !testing::check_backend(device).faults.empty();
  const double loss = trained();
  std::printf("a wrong kernel is %s; loss %g\n", is_found ? "found" : "not found", loss);
  return of_engine == 0 && of_device == 0 && is_found && loss < 1e-6 ? 0 : 1;
}
