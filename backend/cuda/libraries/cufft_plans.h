// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/cuda/runtime/cuda_stream.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/memory/memory_pool.h>

#include <cufft.h>

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>

namespace tutti {

/// cuFFT's plans of one device, made when first used, with their workspace from the device's pool. Thread-safe.
class CufftPlans {
 public:
  CufftPlans(CudaStream& stream, MemoryPool& pool) : stream_(stream), pool_(pool) {}
  ~CufftPlans();
  CufftPlans(const CufftPlans&) = delete;
  CufftPlans& operator=(const CufftPlans&) = delete;

  /// Queues the transform of `rows` contiguous rows of f32 or f64; complex_to_real may write to its input.
  void run(const FourierTransform&, DType, std::int64_t rows, void* input, void* output);

 private:
  static constexpr std::size_t kMostRemembered = 64;  // each holds memory of the device that the pool does not know of

  struct Key {
    FourierTransform::Kind kind;
    DType dtype;
    std::int64_t length;
    std::int64_t rows;
    auto operator<=>(const Key&) const = default;
  };
  struct Plan {
    cufftHandle handle;
    std::size_t workspace;  // bytes
    std::uint64_t used;     // the number of its last use
  };

  const Plan& plan(const Key&, cudaStream_t);
  void forget_least_recent();
  void forget();

  CudaStream& stream_;
  MemoryPool& pool_;
  std::mutex mutex_;  // guards what follows, and each plan from its workspace to its launch
  std::map<Key, Plan> plans_;
  std::uint64_t uses_ = 0;
};

}  // namespace tutti
