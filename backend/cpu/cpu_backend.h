// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/backend.h>
#include <tutti/backend/cpu/linear_algebra/linear_algebra_kernels.h>
#include <tutti/backend/cpu/runtime/cpu_stream.h>
#include <tutti/backend/cpu/runtime/host_memory.h>
#include <tutti/backend/cpu/runtime/thread_pool.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

namespace tutti {

/// Drives cpu:0 ... cpu:255: each its own memory pool, threads and streams, made when first used. Kernels are defined
/// in the file named after them.
class CpuBackend final : public Backend {
 public:
  static constexpr std::uint16_t kMaxDevices = 256;

  /// Streams run inline unless TUTTI_CPU_ASYNC=1; a device has one thread unless TUTTI_CPU_THREADS says more.
  CpuBackend();
  explicit CpuBackend(CpuStream::Mode, int threads = 1);
  ~CpuBackend() override;

  // --- for kernels
  CpuStream& stream(Device device) { return context(device).compute; }
  ThreadPool& threads(Device device) { return context(device).threads; }

  /// The source of the memory of the device's pool: see backend/memory_resource.h.
  HostMemory& memory(Device device) { return context(device).memory; }

  /// The kernels of factorizations and linear systems, of every CPU backend from now on: see LinearAlgebraKernels.
  static void provide(const LinearAlgebraKernels& kernels) noexcept { linear_algebra_ = &kernels; }

  /// Joins all workers; what is launched later runs inline. For the end of the process: see registry.cpp.
  void stop_workers() noexcept;

  void check(Device) const override;
  MemoryPool& pool(Device device) override { return context(device).pool; }
  Stream& compute_stream(Device device) override { return context(device).compute; }
  Stream& communication_stream(Device device) override { return context(device).communication; }

  void elementwise_chain(std::span<const ElementwiseStep>) override;
  void copy_from_host(const void* from, const Array& to) override;
  void copy_to_host(const Array& from, void* to) override;
  bool runs(const CustomKernel&, Device) const override;
  bool multiplies(DType dtype) const override { return is_floating(dtype); }
  bool convolves(DType dtype) const override { return is_floating(dtype); }
  bool attends(DType dtype) const override { return is_floating(dtype); }
  bool rounds_after(LinearActivation) const override { return true; }
  bool has_fused(FusedKernel) const override { return true; }
  bool takes_narrow(FusedKernel kernel, DType dtype) const override {
    return kernel == FusedKernel::normalize_channels || dtype == DType::bf16;
  }

#define TUTTI_KERNEL(name, ...) void name(TUTTI_PARAMETERS(__VA_ARGS__)) override;
#include <tutti/backend/kernel_list.h>

 private:
  struct Context {
    Context(Device, MemoryPool::Keeps, CpuStream::Mode, int threads);

    HostMemory memory;
    MemoryPool pool;
    ThreadPool threads;
    // Streams stand after the pool, to end before it: work that they still hold gives its memory back.
    CpuStream compute;
    CpuStream communication;
  };

  Context& context(Device device) {
    if (device.index < kMaxDevices) {
      Context* found = contexts_[device.index].load(std::memory_order_acquire);
      if (found != nullptr) return *found;
    }
    return make_context(device);
  }
  Context& make_context(Device);

  static const LinearAlgebraKernels& linear_algebra();

  static std::atomic<const LinearAlgebraKernels*> linear_algebra_;  // null in a program that calls none of them
  CpuStream::Mode mode_;
  const MemoryPool::Keeps pools_keep_ = kept_by_pools();
  int default_threads_;
  std::mutex making_;  // guards the making of contexts
  std::array<std::atomic<Context*>, kMaxDevices> contexts_{};
};

}  // namespace tutti
