// SPDX-License-Identifier: Apache-2.0
// A training step whose like has run before takes nothing from the heap.
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/backend/process/environment.h>
#include <tutti/bench/count_allocations.h>
#include <tutti/benches/models.h>
#include <tutti/nn/loss.h>
#include <tutti/tests/sanitizers.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

/// Calls of operator new in one step of a model, after a few others.
std::int64_t allocations_of_a_step(const bench::Workload& workload, DType narrow) {
  Generator random(1);
  Sequential model = workload.make_model(random);
  const auto optimizer = workload.make_optimizer(model.parameters());
  const auto [inputs, targets] = workload.make_batch(random, cpu());
  const auto step = [&, &in = inputs, &expected = targets] {
    optimizer->zero_grad();
    Tensor loss;
    {
      const Autocast as(narrow);
      loss = cross_entropy(model(in), expected);
    }
    backward(loss);
    optimizer->step();
  };
  for (int i = 0; i < 3; ++i) step();
  const std::int64_t before = bench::counting::allocations;
  step();
  return bench::counting::allocations - before;
}

}  // namespace

// Work that is queued for a stream's thread is copied; under sanitizers each object has a block of its own.
TEST_CASE("a warm step takes nothing from the heap" *
          doctest::skip(testing::kIsSanitized || environment_switch("TUTTI_CPU_ASYNC"))) {
  for (const bench::Workload* const workload :
       {&bench::kTinyMlp, &bench::kSmallMlp, &bench::kDigitsCnn, &bench::kGpt, &bench::kLstm})
    for (const DType narrow : {DType::f32, DType::bf16}) {
      CAPTURE(workload->name);
      CAPTURE(to_string(narrow));
      CHECK(allocations_of_a_step(*workload, narrow) == 0);
    }
}

}  // namespace tutti
