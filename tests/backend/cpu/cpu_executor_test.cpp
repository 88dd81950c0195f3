// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu_executor.h>

#include <tutti/backend/cpu/cpu_backend.h>
#include <tutti/backend/cpu/runtime/loop_executor.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>
#include <tutti/backend/linear_algebra/linear_algebra.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/random.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/backend/cpu/loops.h>

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using testing::backwards;
using testing::each_on_a_thread;
using testing::Part;
using Mode = CpuStream::Mode;
constexpr Mode kModes[] = {Mode::run_inline, Mode::worker};

/// What operations whose loops are spread give, as bytes, and one after the other.
template <class T> std::vector<std::byte> results(Device device) {
  constexpr DType kType = dtype_of<T>;
  Generator random(3);
  const auto draw = [&](const Shape& shape) { return random.uniform(shape, kType, device, -1, 1); };
  const Array wide = draw({1000, 300});
  const Array images = draw({21, 8, 16, 16});
  const Array weights = draw({16, 8, 3, 3});
  const Array matrices = draw({20, 60, 60});
  const Array order = arg_sort(wide, 0);
  const Array convolved = conv2d({}, images, weights);
  const std::int64_t rows = 0;
  const std::vector<Array> made{
      matmul(wide, draw({300, 310})),
      matmul(matrices, matrices),
      apply(elementwise::Add{}, wide.transpose(), draw({300, 1000})),
      apply(elementwise::Gelu{}, wide),
      sum(draw({1000, 1000})),
      sum(wide, {&rows, 1}),
      cumsum(wide, 0),
      order,
      gather(wide, 0, order),
      scatter_add({1000, 300}, wide, 0, order),
      softmax(SoftmaxKind::softmax, wide, 1),
      softmax(SoftmaxKind::log_softmax, wide, 0),
      normalize_rows({}, wide).output,
      dropout(wide, 0.5, 2, random).first,
      convolved,
      conv2d_input_gradient({}, convolved, weights, images.shape()),
      conv2d_weight_gradient({}, convolved, images, weights.shape()),
      avg_pool2d({}, images),
      fourier({.kind = FourierTransform::Kind::real_to_complex, .length = 300}, wide),
      lu(matrices).factors,
      solve(matrices, matrices),
  };
  std::vector<std::byte> bytes;
  for (const Array& each : made) {
    const Array flat = each.contiguous();
    std::vector<std::byte> own(flat.bytes());
    backend_for(device).copy_to_host(flat, own.data());
    bytes.insert(bytes.end(), own.begin(), own.end());
  }
  return bytes;
}

TEST_CASE_TEMPLATE("executor: results do not depend on it, nor on the number of parts", T, float, double) {
  const Device device = cpu(40);
  set_cpu_threads(device, 1);
  const std::vector<std::byte> expected = results<T>(device);
  for (const CpuExecutor& executor : {CpuExecutor(backwards), CpuExecutor(each_on_a_thread)})
    for (const int threads : {2, 5}) {
      std::atomic<int> loops{0};
      set_cpu_executor(device, threads, [&](int parts, const Part& part) {
        ++loops;
        executor(parts, part);
      });
      CHECK(results<T>(device) == expected);
      CHECK(loops >= 20);
      set_cpu_executor(device, 1, nullptr);
    }
  CHECK(cpu_threads(device) == 1);
}

TEST_CASE("executor: it is set by device, with a number of threads that is there") {
  CHECK_THROWS_WITH_AS(set_cpu_executor(cuda(0), 2, backwards), "[set_cpu_executor] cuda:0 is no CPU device",
                       DeviceError);
  CHECK_THROWS_WITH_AS(set_cpu_executor(cpu(41), 0, backwards), doctest::Contains("0 threads for cpu:41"), DeviceError);
  const int before = cpu_threads(cpu(42));
  set_cpu_executor(cpu(41), 6, backwards);
  CHECK(cpu_threads(cpu(41)) == 6);
  CHECK(cpu_threads(cpu(42)) == before);
  set_cpu_executor(cpu(41), 1, nullptr);
}

TEST_CASE("executor: streams of both kinds call it where their work runs") {
  for (const Mode mode : kModes) {
    CpuBackend backend(mode);
    const Device device = cpu(43);
    std::thread::id caller;
    backend.threads(device).run_by(std::make_unique<LoopExecutor>(device,
                                                                  [&](int parts, const Part& part) {
                                                                    caller = std::this_thread::get_id();
                                                                    each_on_a_thread(parts, part);
                                                                  }),
                                   3);
    const Array x = Generator(1).uniform({1000, 300}, DType::f32, device);
    const Array y = Array::empty({1000}, DType::f32, device);
    const std::int64_t axis = 1;
    const std::vector<float> expected = sum(x, {&axis, 1}).to_vector<float>();
    backend.reduce(Reduction::sum, x, y.reshape({1000, 1}));
    backend.compute_stream(device).synchronize();
    CHECK(y.to_vector<float>() == expected);
    CHECK((caller == std::this_thread::get_id()) == (mode == Mode::run_inline));
  }
}

TEST_CASE(
    "executor: what goes wrong in it is an error of the operation, at the call or when its stream is waited for") {
  for (const Mode mode : kModes) {
    CpuBackend backend(mode);
    const Device device = cpu(43);
    const Array x = Generator(1).uniform({1000, 300}, DType::f32, device);
    synchronize(device);
    const auto run_with = [&](CpuExecutor executor) {
      backend.threads(device).run_by(std::make_unique<LoopExecutor>(device, std::move(executor)), 2);
      backend.fill(x, 3.0);
      backend.compute_stream(device).synchronize();
    };
    CHECK_THROWS_WITH_AS(run_with([](int, const Part& part) { part(0); }),
                         doctest::Contains("cpu:43: the executor returned without a call of part 1 of 2"), Error);
    CHECK_THROWS_WITH_AS(run_with([](int, const Part&) { throw std::runtime_error("closed"); }), "closed",
                         std::runtime_error);
    CHECK_THROWS_WITH_AS(run_with([](int, const Part&) { throw std::bad_alloc(); }),
                         doctest::Contains("the machine has no memory left"), OutOfMemoryError);
    CHECK_NOTHROW(run_with(backwards));
    CHECK(x.to_vector<float>() == std::vector<float>(300000, 3.0F));
  }
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
