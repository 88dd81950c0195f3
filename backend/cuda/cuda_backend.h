// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/backend.h>
#include <tutti/backend/cuda/libraries/convolution_library.h>
#include <tutti/backend/cuda/libraries/cublas_handles.h>
#include <tutti/backend/cuda/libraries/cufft_plans.h>
#include <tutti/backend/cuda/libraries/solver_handles.h>
#include <tutti/backend/cuda/runtime/cuda_graph.h>
#include <tutti/backend/cuda/runtime/cuda_stream.h>
#include <tutti/backend/cuda/runtime/index_faults.h>
#include <tutti/backend/cuda/runtime/literal_arrays.h>
#include <tutti/backend/cuda/runtime/matrix_faults.h>
#include <tutti/backend/cuda/runtime/pinned_memory.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

namespace tutti {

/// Drives the CUDA devices of this process: each its own memory pool and streams, made when first used. Operations are
/// defined in the file named after them, their kernels in kernels/.
///
/// Memory is handed out in the order of the compute stream: a block that is released may still be in use by what is
/// queued there, and so may its next owner, later. Whoever uses an array on another stream keeps it until the compute
/// stream has been made to wait for that use.
class CudaBackend final : public Backend {
 public:
  static constexpr std::uint16_t kMaxDevices = 64;

  CudaBackend();  ///< throws DeviceError when the driver is missing or too old
  ~CudaBackend() override;

  // --- for operations
  /// The compute stream; that of the calling thread's GraphRecording, if there is one.
  CudaStream& stream(Device device) {
    GraphRecording* const recording = GraphRecording::active(device);
    return recording != nullptr ? recording->stream() : context(device).compute;
  }
  /// Memory for the time of one operation on that stream: gone when the handle goes, as far as the host knows.
  Storage workspace(Device device, std::size_t bytes) { return Storage(device, pool(device), bytes); }

  void check(Device) const override;
  MemoryPool& pool(Device device) override {
    GraphRecording* const recording = GraphRecording::active(device);
    return recording != nullptr ? recording->scratch() : context(device).pool;
  }
  Stream& compute_stream(Device device) override { return context(device).compute; }
  Stream& communication_stream(Device device) override { return context(device).communication; }
  std::unique_ptr<DeviceGraph> make_graph(Device, MemoryPool& scratch, const std::function<void()>& work) override;

  void copy_from_host(const void* from, const Array& to) override;
  void copy_to_host(const Array& from, void* to) override;
  void copy_from_device(const Array& from, const Array& to) override;
  Array literal(Scalar value, DType dtype, Device device) override {
    return context(device).literals.find(value, dtype);
  }
  bool multiplies(DType dtype) const override { return is_floating(dtype); }
  bool draws_at_places() const override { return true; }
  bool runs(const CustomKernel&, Device) const override;

#define TUTTI_KERNEL(name, ...) void name(TUTTI_PARAMETERS(__VA_ARGS__)) override;
#define TUTTI_FUSED_KERNEL(name, ...)
#include <tutti/backend/kernel_list.h>

 private:
  /// Adds each row of the updates to the output's row of that number.
  void add_rows(const Array& updates, const Array& rows, const Array& output);

  struct Context {
    Context(Device, MemoryPool::Keeps);
    ~Context();

    std::unique_ptr<RawMemory> memory;
    MemoryPool pool;
    IndexFaults index_faults;
    MatrixFaults matrix_faults;
    CudaStream compute;
    CudaStream communication;
    PinnedMemory staging;  // holds events of the streams, which must outlive them
    CublasHandles cublas;
    CufftPlans transforms;
    SolverHandles solvers;
    std::unique_ptr<ConvolutionLibrary> convolutions;
    LiteralArrays literals;
  };

  Context& context(Device device) {
    if (device.index < kMaxDevices) {
      Context* found = contexts_[device.index].load(std::memory_order_acquire);
      if (found != nullptr) return *found;
    }
    return make_context(device);
  }
  Context& make_context(Device);
  bool convolved_by_library(const ConvolutionCall&);
  class MatrixWork;  // linear_algebra.cpp
  bool multiply(std::string_view name, const MatmulPlan&, CublasProblem, const Array& lhs, const Array& rhs,
                const Array& output, const void* bias);

  /// Elementwise operations of i8 and u8, which have no kernels of their own.
  void elementwise_widened(const ElementwiseCall&, std::span<const Array> inputs, const Array& output);

  const MemoryPool::Keeps pools_keep_ = kept_by_pools();
  int devices_ = 0;
  std::mutex making_;  // guards the making of contexts
  std::array<std::atomic<Context*>, kMaxDevices> contexts_{};
};

}  // namespace tutti
