// SPDX-License-Identifier: Apache-2.0
// What runs kernels on the host finds their faults.
#include <tutti/tests/backend/cuda/on_host/kernel_language.h>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

TEST_SUITE_BEGIN("cpu");

namespace tutti::cuda_kernels {
namespace {

using on_host::Fault;

template <class F> void run(unsigned blocks, dim3 threads, const F& kernel) {
  on_host::run_grid(blocks, threads, {run_call<F>, &kernel});
}

template <class F> std::string fault_of(dim3 threads, const F& kernel) {
  try {
    run(1, threads, kernel);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "none";
}

bool tells(const std::string& fault, std::string_view part) { return fault.find(part) != std::string::npos; }

TEST_CASE("every thread of every block runs once, and knows its place") {
  std::vector<int> seen(3 * 40 * 2 * 3);
  run(3, dim3(40, 2, 3), [&] {
    CHECK(gridDim.x == 3);
    CHECK(blockDim.y == 2);
    ++seen[((blockIdx.x * 3 + threadIdx.z) * 2 + threadIdx.y) * 40 + threadIdx.x];
  });
  CHECK(seen == std::vector<int>(seen.size(), 1));
}

TEST_CASE("threads of a block wait for each other") {
  for (const auto order :
       {on_host::Schedule::Order::forward, on_host::Schedule::Order::backward, on_host::Schedule::Order::shuffled}) {
    on_host::schedule.order = order;
    static int values[100];
    std::vector<int> sums(100);
    run(2, 100, [&] {
      int sum = 0;
      for (int round = 0; round < 3; ++round) {
        values[threadIdx.x] = static_cast<int>(threadIdx.x) + round;
        __syncthreads();
        for (const int value : values) sum += value;
        __syncthreads();
      }
      sums[threadIdx.x] = sum;
    });
    CHECK(sums == std::vector<int>(100, 3 * 4950 + 300));
  }
  on_host::schedule.order = on_host::Schedule::Order::forward;
}

TEST_CASE("lanes of a warp exchange values") {
  run(1, 96, [] {
    const std::uint32_t lane = threadIdx.x % 32;
    CHECK(__shfl_xor_sync(~0U, threadIdx.x, 5) == (threadIdx.x ^ 5U));
    CHECK(__shfl_down_sync(~0U, 1.5 * lane, 30) == (lane < 2 ? 1.5 * (lane + 30) : 1.5 * lane));
    CHECK(__shfl_sync(~0U, static_cast<float>(threadIdx.x), 7) == static_cast<float>(threadIdx.x / 32 * 32 + 7));
    CHECK(__ballot_sync(~0U, lane % 2 == 1) == 0xaaaaaaaaU);
    if (lane < 8) CHECK(__ballot_sync(0xffU, true) == 0xffU);
    __syncwarp();
  });
}

TEST_CASE("a barrier that some threads of the block do not reach is a fault") {
  const auto without_one = [] {
    if (threadIdx.x != 3) __syncthreads();
  };
  CHECK(tells(fault_of(64, without_one), "1 threads have ended; 63 threads wait for the block at grid_test.cpp:"));
  const auto at_two_places = [] {
    if (threadIdx.x < 32)
      __syncthreads();
    else
      __syncthreads();
  };
  CHECK(tells(fault_of(64, at_two_places), "others at grid_test.cpp:"));
}

TEST_CASE("lanes that do not take part are a fault") {
  const auto without_one = [] {
    if (threadIdx.x != 9) __syncwarp();
  };
  CHECK(tells(fault_of(32, without_one), "31 threads wait for lanes 0xffffffff"));
  const auto of_all = [] { __syncwarp(); };
  CHECK(tells(fault_of(16, of_all), "is lane 0 of 16 and calls for lanes 0xffffffff"));
  const auto of_the_other_half = [] { __shfl_xor_sync(threadIdx.x < 16 ? 0xffffU : 0xffff0000U, 1U, 16); };
  CHECK(tells(fault_of(32, of_the_other_half), "reads lane 16 at grid_test.cpp"));
  const auto at_the_barrier = [] {
    if (threadIdx.x < 32)
      __syncthreads();
    else
      __ballot_sync(threadIdx.x == 40 ? 1U << 8U : ~0U, true);
  };
  CHECK(tells(fault_of(64, at_the_barrier), "32 threads wait for the block"));
}

TEST_CASE("after a fault grids run as before") {
  CHECK(fault_of(8, [] {
          if (threadIdx.x == 0) __syncthreads();
        }) != "none");
  CHECK(fault_of(8, [] { __syncthreads(); }) == "none");
  CHECK_THROWS_AS(run(0, 8, [] {}), Fault);
  CHECK_THROWS_AS(run(1, 1025, [] {}), Fault);
}

}  // namespace
}  // namespace tutti::cuda_kernels

TEST_SUITE_END();
