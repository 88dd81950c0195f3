// SPDX-License-Identifier: Apache-2.0
// Plans of cuFFT on a recording machine, which computes them: layouts, workspace, what is remembered, and failures.
#include <tutti/backend/cuda/libraries/cufft_plans.h>
#include <tutti/backend/error.h>
#include <tutti/backend/memory/storage.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

namespace tutti::testing {
namespace {

using Kind = FourierTransform::Kind;

constexpr Device kDevice = cuda(1);

class DeviceMemory final : public RawMemory {
 public:
  void* allocate(std::size_t bytes) override {
    void* data = nullptr;
    const cuda_runtime::CurrentDevice current(kDevice, "memory");
    return cudaMalloc(&data, bytes) == cudaSuccess ? data : nullptr;
  }
  void release(void* data, std::size_t) noexcept override {
    (void)cudaDeviceSynchronize();
    (void)cudaFree(data);
  }
};

/// A device with a stream and memory; what is there lives on the host.
struct Machine {
  RecordingCuda recording{{.deferred = true}};
  DeviceMemory memory;
  MemoryPool pool{kDevice, memory};
  CudaStream stream{kDevice, CudaStream::Priority::normal};
  CufftPlans plans{stream, pool};

  template <class T> std::vector<T> run(const FourierTransform& transform, DType dtype, std::int64_t rows,
                                        const std::vector<T>& input, std::size_t results, std::size_t begin = 0) {
    const Storage memory(kDevice, pool, (begin + input.size()) * sizeof(T));
    std::byte* const from = memory.data() + begin * sizeof(T);
    const Storage to(kDevice, pool, results * sizeof(T));
    std::memcpy(from, input.data(), input.size() * sizeof(T));
    plans.run(transform, dtype, rows, from, to.data());
    stream.synchronize();
    std::vector<T> found(results);
    std::memcpy(found.data(), to.data(), results * sizeof(T));
    return found;
  }
};

template <class T> void check_close(const std::vector<T>& found, const std::vector<T>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-6));
}

}  // namespace

TEST_CASE("cuFFT: each kind of transform, of several rows, in f32 and f64") {
  Machine machine;
  // Of (1, 2, 3): 6, -1.5 + sqrt(3) / 2 i, and its conjugate. The second row is the double of the first.
  const double height = std::sqrt(3.0) / 2;
  check_close<double>(
      machine.run<double>({Kind::complex, false, 3}, DType::f64, 2, {1, 0, 2, 0, 3, 0, 2, 0, 4, 0, 6, 0}, 12),
      {6, 0, -1.5, height, -1.5, -height, 12, 0, -3, 2 * height, -3, -2 * height});
  check_close<double>(
      machine.run<double>({Kind::complex, true, 3}, DType::f64, 1, {6, 0, -1.5, height, -1.5, -height}, 6),
      {3, 0, 6, 0, 9, 0});
  check_close<float>(machine.run<float>({Kind::real_to_complex, false, 4}, DType::f32, 2, {1, 2, 3, 4, 0, 0, 0, 1}, 12),
                     {10, 0, -2, 2, -2, 0, 1, 0, 0, 1, -1, 0});
  check_close<float>(machine.run<float>({Kind::complex_to_real, true, 4}, DType::f32, 1, {10, 0, -2, 2, -2, 0}, 4),
                     {4, 8, 12, 16});
  CHECK(machine.pool.statistics().in_use == 0);
}

TEST_CASE("cuFFT: a view that begins between complex numbers is copied first") {
  Machine machine;
  check_close<float>(
      machine.run<float>({Kind::real_to_complex, false, 4}, DType::f32, 2, {1, 2, 3, 4, 0, 0, 0, 1}, 12, 1),
      {10, 0, -2, 2, -2, 0, 1, 0, 0, 1, -1, 0});
  check_close<double>(machine.run<double>({Kind::complex, true, 2}, DType::f64, 1, {1, 2, 3, 4}, 4, 3), {4, 6, -2, -2});
  check_close<float>(machine.run<float>({Kind::complex_to_real, true, 4}, DType::f32, 1, {10, 0, -2, 2, -2, 0}, 4, 1),
                     {4, 8, 12, 16});
  CHECK(machine.recording.count("cudaMemcpyAsync") == 3);
  machine.run<float>({Kind::real_to_complex, false, 2}, DType::f32, 1, {1, 2}, 4, 2);
  CHECK(machine.recording.count("cudaMemcpyAsync") == 3);
  CHECK(machine.pool.statistics().in_use == 0);
}

TEST_CASE("cuFFT: a plan is made once, serves both directions, and the least recently used is given back") {
  Machine machine;
  const auto run = [&](std::int64_t length, bool inverse) {
    const auto count = static_cast<std::size_t>(2 * length);
    machine.run<float>({Kind::complex, inverse, length}, DType::f32, 1, std::vector<float>(count), count);
  };
  run(5, false);
  run(5, true);
  CHECK(machine.recording.count("cufftCreate") == 1);
  for (std::int64_t length = 1; length <= 100; ++length) run(length, false);
  CHECK(machine.recording.count("cufftCreate") == 100);
  CHECK(machine.recording.count("cufftDestroy") == 36);
  const auto calls = machine.recording.calls();
  for (std::size_t i = 1; i < calls.size(); ++i)  // before the lock is taken, as what is queued is waited for
    if (calls[i].name == "cufftDestroy") CHECK(calls[i - 1].name == "cudaStreamSynchronize");
  run(37, false);  // the least recently used is 38's now
  run(1, false);
  CHECK(machine.recording.count("cufftCreate") == 101);
  run(37, false);
  CHECK(machine.recording.count("cufftCreate") == 101);
  run(38, false);
  CHECK(machine.recording.count("cufftCreate") == 102);
}

TEST_CASE("cuFFT: each call fails in turn, with an error that names it, and the next one works") {
  for (const char* call : {"cufftCreate", "cufftSetAutoAllocation", "cufftXtMakePlanMany", "cufftSetStream",
                           "cufftSetWorkArea", "cufftXtExec"}) {
    CAPTURE(std::string(call));
    Machine machine;
    const auto run = [&] { machine.run<float>({Kind::complex, false, 2}, DType::f32, 1, {1, 0, 0, 0}, 4); };
    machine.recording.fail_call(call, 1, cudaErrorLaunchFailure);
    CHECK_THROWS_WITH_AS(run(), doctest::Contains(call), DeviceError);
    CHECK(machine.pool.statistics().in_use == 0);
    CHECK_NOTHROW(run());
  }
  Machine machine;
  machine.recording.fail_call("cufftXtMakePlanMany", 1, cudaErrorMemoryAllocation);
  CHECK_THROWS_WITH_AS(
      machine.run<float>({Kind::complex, false, 2}, DType::f32, 1, {1, 0, 0, 0}, 4),
      doctest::Contains("[fourier] cuda:1: cufftXtMakePlanMany failed with cuFFT's error 2 (out of memory)"),
      DeviceError);
}

}  // namespace tutti::testing
