// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/sanitizers.h>

#include <doctest/doctest.h>

#include <pthread.h>

namespace tutti {
namespace {

using Inputs = std::vector<Tensor>;

TEST_CASE("embedding: rows by number, with repeated and unused ones, for indices and tables of any rank") {
  const Tensor table = spread({4, 3}, 1);
  const Tensor indices = index({2, 0, 2, 3, 2, 0}, {2, 3});
  const Tensor rows = embedding(table, indices);
  CHECK(rows.shape() == Shape{2, 3, 3});
  const auto all = table.to_vector<double>();
  CHECK(rows.to_vector<double>()[9] == all[9]);
  CHECK(rows.to_vector<double>()[1] == all[7]);
  check_gradients([&](const Inputs& in) { return square(embedding(in[0], indices)); }, {table});
  check_gradients([&](const Inputs& in) { return embedding(in[0], index({1, 1}, {2})); }, {spread({2, 2, 2}, 2)});
  check_gradients([&](const Inputs& in) { return embedding(in[0], index({1}, {})); }, {spread({3}, 3)});
  CHECK(embedding(table, index({}, {0, 2})).shape() == Shape{0, 2, 3});
  for (const DType narrow : {DType::i32, DType::u8})
    CHECK(embedding(table, cast(indices, narrow)).to_vector<double>() == rows.to_vector<double>());
}

TEST_CASE("embedding: what does not fit is named") {
  const Tensor table = spread({4, 3}, 1);
  CHECK_THROWS_WITH_AS(embedding(table, constant({1}, {1})), doctest::Contains("f64"), DTypeError);
  CHECK_THROWS_WITH_AS(embedding(leaf({1}, {}), index({0}, {1})), doctest::Contains("scalar"), ShapeError);
  CHECK_THROWS_WITH(embedding(table, index({4}, {1})).to_vector<double>(), doctest::Contains("4"));
}

/// How many times as large frames are: sanitizers put guards between variables.
constexpr std::size_t kFrames = testing::kIsSanitized ? 8 : 1;

/// Runs `work` on a thread with a stack of that size.
void run_on_stack(std::size_t bytes, void* (*work)(void*), void* argument) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  REQUIRE(pthread_attr_setstacksize(&attributes, bytes) == 0);
  pthread_t thread{};
  REQUIRE(pthread_create(&thread, &attributes, work, argument) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

/// What is taken of each thread's stack before it runs: variables of threads, 185 KiB of them those of CUDA's
/// libraries.
std::size_t stack_taken_beforehand() {
  std::size_t taken = 0;
  const auto measure = [](void* result) -> void* {
    pthread_attr_t own;
    void* lowest = nullptr;
    std::size_t size = 0;
    pthread_getattr_np(pthread_self(), &own);
    pthread_attr_getstack(&own, &lowest, &size);
    const char* const highest = static_cast<const char*>(lowest) + size;  // it may be another thread's, larger
    *static_cast<std::size_t*>(result) =
        static_cast<std::size_t>(highest - static_cast<const char*>(__builtin_frame_address(0)));
    pthread_attr_destroy(&own);
    return nullptr;
  };
  run_on_stack(std::size_t{4} << 20U, measure, &taken);
  constexpr std::size_t kPage = 4096;
  return (taken + kPage - 1) / kPage * kPage;
}

// A thread of few KiB of stack, as those of servers may be.
TEST_CASE("embedding: forward, backward and a wrong index take less than 192 KiB of stack" *
          doctest::test_suite("cpu")) {
  const auto work = [](void*) -> void* {
    const Tensor table = leaf({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2});
    backward(sum(embedding(table, index({2, 0, 2}, {3}))));
    CHECK(table.grad().to_vector<double>() == Values{1, 1, 0, 0, 2, 2, 0, 0});
    CHECK_THROWS_AS(embedding(table, index({7}, {1})).to_vector<double>(), ShapeError);
    return nullptr;
  };
  run_on_stack(kFrames * (std::size_t{192} << 10U) + stack_taken_beforehand(), work, nullptr);
}

}  // namespace
}  // namespace tutti
