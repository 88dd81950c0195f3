// SPDX-License-Identifier: Apache-2.0
// A training step whose like has run before takes nothing from the heap, and no page from the kernel.
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/process/environment.h>
#include <tutti/bench/count_allocations.h>
#include <tutti/benches/models.h>
#include <tutti/nn/loss.h>
#include <tutti/tests/sanitizers.h>

#include <doctest/doctest.h>

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

/// What steps of a model take after a few others: calls of operator new, of all of them and the least of a step's, and
/// page faults, the least of a step's, since the kernel moves pages of its own accord, too.
struct Taken {
  std::int64_t allocations = 0;
  std::int64_t least_allocations = std::numeric_limits<std::int64_t>::max();
  std::int64_t faults = std::numeric_limits<std::int64_t>::max();
};

/// True where the kernel takes pages away to see who uses them, so that faults say nothing of the library.
bool balances_pages() {
  std::ifstream file("/proc/sys/kernel/numa_balancing");
  int mode = 0;
  return file >> mode && mode != 0;
}

std::int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

Taken taken_by_a_step(const bench::Workload& workload, DType narrow) {
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
  Taken taken;
  for (int i = 0; i < 10 && (taken.faults != 0 || taken.least_allocations != 0); ++i) {
    const std::int64_t allocations = bench::counting::allocations;
    const std::int64_t faults = page_faults();
    step();
    taken.faults = std::min(taken.faults, page_faults() - faults);
    const std::int64_t made = bench::counting::allocations - allocations;
    taken.allocations += made;
    taken.least_allocations = std::min(taken.least_allocations, made);
  }
  return taken;
}

/// `threads`: of the device. Memory that a thread keeps for products is made when it first takes part in one of that
/// size, and who takes which part depends on who runs: of several threads the least of a step counts.
void check_that_nothing_is_taken(const bench::Workload& workload, DType narrow, int threads = 1) {
  CAPTURE(std::string(workload.name));
  CAPTURE(to_string(narrow));
  const Taken taken = taken_by_a_step(workload, narrow);
  CHECK((threads == 1 ? taken.allocations : taken.least_allocations) == 0);
  if (balances_pages())
    MESSAGE("page faults are not checked: kernel.numa_balancing is on");
  else
    CHECK(taken.faults == 0);
}

}  // namespace

// Work that is queued for a stream's thread is copied; under sanitizers each object has a block of its own.
TEST_CASE("a warm step takes nothing from the heap, and no page" *
          doctest::skip(testing::kIsSanitized || environment_switch("TUTTI_CPU_ASYNC"))) {
  for (const bench::Workload* const workload : bench::kWorkloads)
    for (const DType narrow : {DType::f32, DType::bf16}) check_that_nothing_is_taken(*workload, narrow);
  for (const bench::Workload* const workload : {&bench::kDigitsCnn, &bench::kLstm})
    check_that_nothing_is_taken(*workload, DType::f16);
}

TEST_CASE("a warm step of two threads takes nothing from the heap, and no page" *
          doctest::skip(testing::kIsSanitized || environment_switch("TUTTI_CPU_ASYNC"))) {
  set_cpu_threads(cpu(), 2);
  for (const bench::Workload* const workload : {&bench::kSmallMlp, &bench::kCnn, &bench::kGpt})
    check_that_nothing_is_taken(*workload, DType::f32, 2);
  set_cpu_threads(cpu(), 1);
}

}  // namespace tutti
