// SPDX-License-Identifier: Apache-2.0
// A training step whose forward and backward are replayed from a capture, beside the same step taken eagerly: in turn,
// on equal models.
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/benches/models.h>
#include <tutti/benches/samples.h>
#include <tutti/nn/loss.h>
#include <tutti/train/captured_step.h>

#include <benchmark/benchmark.h>

using namespace tutti;
using namespace tutti::bench;

namespace {

/// A model, its optimizer, and how its steps are taken.
struct Trainee {
  explicit Trainee(const Workload& workload)
      : random(1),
        model(workload.make_model(random)),
        optimizer(workload.make_optimizer(model.parameters())),
        batch(workload.make_batch(random, cpu())),
        captured(model, [this](std::span<const Tensor> given) {
          return std::vector{cross_entropy(model.forward(given[0]), given[1])};
        }) {}

  void step(bool replayed) {
    if (replayed)
      captured({batch.first, batch.second});
    else
      backward(cross_entropy(model.forward(batch.first), batch.second));
  }
  void update() {
    optimizer->step();
    optimizer->zero_grad();
    synchronize(cpu());
  }

  Generator random;
  Sequential model;
  std::unique_ptr<Optimizer> optimizer;
  std::pair<Tensor, Tensor> batch;
  CapturedStep captured;
};

double seconds_of(Trainee& trainee, bool replayed, int steps, bool with_update) {
  double seconds = 0;
  for (int i = 0; i < steps; ++i) {
    const auto start = Clock::now();
    trainee.step(replayed);
    synchronize(cpu());
    if (!with_update) seconds += seconds_since(start);
    trainee.update();
    if (with_update) seconds += seconds_since(start);
  }
  return seconds / steps;
}

void captured_step(benchmark::State& state, const Workload& workload, int steps) {
  Trainee eager(workload);
  Trainee replayed(workload);
  for (int i = 0; i < 4; ++i) {
    seconds_of(eager, false, 1, true);
    seconds_of(replayed, true, 1, true);
  }
  PairedSamples passes;
  PairedSamples whole;
  for (auto _ : state) {
    const double ours = seconds_of(replayed, true, steps, false);
    passes.add(ours, seconds_of(eager, false, steps, false));
    const double all = seconds_of(replayed, true, steps, true);
    whole.add(all, seconds_of(eager, false, steps, true));
  }
  state.counters["passes_us"] = 1e6 * passes.ours();
  state.counters["eager_passes_us"] = 1e6 * passes.peer();
  state.counters["passes_ratio"] = passes.ratio();
  state.counters["step_us"] = 1e6 * whole.ours();
  state.counters["eager_step_us"] = 1e6 * whole.peer();
  state.counters["step_ratio"] = whole.ratio();
  state.counters["capture_KB"] = static_cast<double>(replayed.captured.report().memory) / 1024;
}

BENCHMARK_CAPTURE(captured_step, mlp_4x8_10, kTinyMlp, 50)->Iterations(60)->UseRealTime();
BENCHMARK_CAPTURE(captured_step, mlp_784_512_512_10, kSmallMlp, 2)->Iterations(60)->UseRealTime();
BENCHMARK_CAPTURE(captured_step, mlp_784_4x1024_10, kLargeMlp, 1)->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(captured_step, digits_cnn, kDigitsCnn, 3)->Iterations(60)->UseRealTime();

Tensor rows_of_eight(std::int64_t size, bool requires_grad) {
  return Tensor(Array::full({8, size / 8}, 0.125, DType::f32, cpu()), requires_grad);
}

/// A parameter of so many elements, and a chain of operations of it.
struct Formula : Module {
  explicit Formula(std::int64_t size) : x(rows_of_eight(size, true)) {}
  void visit(MemberVisitor& v) override { v.parameter("x", x); }

  Tensor x;
};

/// Processor time of one operation of a chain, replayed and eager, by turns: `length` operations and their backward.
template <class Operation> void captured_chain(benchmark::State& state, Operation operation, int length) {
  const std::int64_t size = state.range(0);
  const Tensor b = rows_of_eight(size, false);
  const auto loss = [&](const Formula& formula) {
    Tensor y = formula.x;
    for (int i = 0; i < length; ++i) y = operation(y, b);
    return sum(y);
  };
  Formula eager(size);
  Formula replayed(size);
  CapturedStep captured(replayed, [&](std::span<const Tensor>) { return std::vector{loss(replayed)}; });
  const int chains = size < 1000 ? 100 : 1;  // in a sample
  const auto seconds_of = [&](bool is_replay) {
    const double before = processor_seconds();
    for (int i = 0; i < chains; ++i) {
      if (is_replay)
        captured({});
      else
        backward(loss(eager));
      (is_replay ? replayed : eager).x.zero_grad();
    }
    return (processor_seconds() - before) / chains / length;
  };
  for (int i = 0; i < 4; ++i) seconds_of(true), seconds_of(false);
  PairedSamples samples;
  for (auto _ : state) {
    const double ours = seconds_of(true);
    samples.add(ours, seconds_of(false));
  }
  state.counters["operation_ns"] = 1e9 * samples.ours();
  state.counters["eager_ns"] = 1e9 * samples.peer();
  state.counters["ratio"] = samples.ratio();
  state.counters["chained"] = static_cast<double>(captured.report().chained);
}

const auto kAdd = [](const Tensor& y, const Tensor& b) { return y + b; };
const auto kMultiply = [](const Tensor& y, const Tensor& b) { return y * b; };
const auto kRelu = [](const Tensor& y, const Tensor&) { return relu(y); };
const auto kMatmul = [](const Tensor& y, const Tensor& b) { return matmul(y, b); };
const auto kGate = [](const Tensor& y, const Tensor& b) { return b + y * tanh(y * 0.5); };

BENCHMARK_CAPTURE(captured_chain, add, kAdd, 100)->Arg(64)->Iterations(20)->UseRealTime();
BENCHMARK_CAPTURE(captured_chain, multiply, kMultiply, 100)->Arg(64)->Iterations(20)->UseRealTime();
BENCHMARK_CAPTURE(captured_chain, relu, kRelu, 100)->Arg(64)->Iterations(20)->UseRealTime();
BENCHMARK_CAPTURE(captured_chain, matmul, kMatmul, 100)->Arg(64)->Iterations(20)->UseRealTime();
BENCHMARK_CAPTURE(captured_chain, multiply_ten, kMultiply, 10)->Arg(1 << 20)->Iterations(20)->UseRealTime();
BENCHMARK_CAPTURE(captured_chain, gate, kGate, 4)->Arg(64)->Arg(1 << 20)->Iterations(20)->UseRealTime();

}  // namespace
