// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/backend.h>
#include <tutti/backend/cpu/cpu_stream.h>
#include <tutti/backend/cpu/linear_algebra_kernels.h>
#include <tutti/backend/cpu/thread_pool.h>

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

  /// The kernels of factorizations and linear systems, of every CPU backend from now on: see LinearAlgebraKernels.
  static void provide(const LinearAlgebraKernels& kernels) noexcept { linear_algebra_ = &kernels; }

  /// Joins all workers; what is launched later runs inline. For the end of the process: see registry.cpp.
  void stop_workers() noexcept;

  void check(Device) const override;
  MemoryPool& pool(Device device) override { return context(device).pool; }
  Stream& compute_stream(Device device) override { return context(device).compute; }
  Stream& communication_stream(Device device) override { return context(device).communication; }

  void copy_from_host(const void* from, const Array& to) override;
  void copy_to_host(const Array& from, void* to) override;
  void copy(const Array& from, const Array& to) override;
  void cast(const Array& from, const Array& to) override;
  void fill(const Array& to, Scalar) override;
  void arange(const Array& to, std::int64_t first, std::int64_t step) override;

  void elementwise(const ElementwiseCall&, std::span<const Array> inputs, const Array& output) override;
  void where(const Array& mask, const Array& a, const Array& b, const Array& output) override;

  void reduce(Reduction, const Array& input, const Array& output) override;
  void arg_reduce(ArgReduction, const Array& input, std::size_t axis, const Array& output) override;
  void cumsum(const Array& input, std::size_t axis, bool reverse, const Array& output) override;
  void running_arg(ArgReduction, const Array& input, std::size_t axis, const Array& output) override;
  void arg_sort(const Array& input, std::size_t axis, bool descending, const Array& output) override;
  void fourier(const FourierTransform&, const Array& input, const Array& output) override;

  void matmul(const Array& lhs, const Array& rhs, const Array& output) override;
  void linear(const Array& input, const Array& weight, const Array& bias, LinearActivation,
              const Array& output) override;
  void softmax(SoftmaxKind, const Array& input, std::size_t axis, const Array& output) override;
  void softmax_gradient(SoftmaxKind, const Array& output, const Array& gradient, std::size_t axis,
                        const Array& input_gradient) override;
  void normalize_rows(const RowNorm&, const Array& input, const Array& weight, const Array& bias, const Array& output,
                      const Array& mean, const Array& scale) override;
  void normalize_rows_gradient(const RowNorm&, const Array& input, const Array& weight, const Array& mean,
                               const Array& scale, const Array& gradient, const Array& input_gradient) override;
  void normalize_rows_sums(const Array& input, const Array& mean, const Array& scale, const Array& gradient,
                           const Array& weight_sums, const Array& bias_sums) override;
  void gather(const Array& input, std::size_t axis, const Array& index, const Array& output) override;
  void scatter(Scatter, const Array& updates, std::size_t axis, const Array& index, const Array& output) override;
  void conv2d(const Conv2dGeometry&, const Array& input, const Array& weight, const Array& output) override;
  void conv2d_input_gradient(const Conv2dGeometry&, const Array& gradient, const Array& weight,
                             const Array& input_gradient) override;
  void conv2d_weight_gradient(const Conv2dGeometry&, const Array& gradient, const Array& input,
                              const Array& weight_gradient) override;
  void max_pool2d(const Pool2dGeometry&, const Array& input, const Array& output, const Array& index) override;
  void max_pool2d_gradient(const Pool2dGeometry&, const Array& gradient, const Array& index,
                           const Array& input_gradient) override;
  void avg_pool2d(const AvgPool2dGeometry&, const Array& input, const Array& output) override;
  void avg_pool2d_gradient(const AvgPool2dGeometry&, const Array& gradient, const Array& input_gradient) override;

  void factorize(Factorization, const Array& input, const Array& output) override;
  void lu(const Array& input, const Array& factors, const Array& permutation, const Array& sign) override;
  void solve_triangular(const TriangularSystem&, const Array& matrix, const Array& right, const Array& output) override;

  void random(const RandomCall&, const Array& output) override;
  void dropout(const DropoutCall&, const Array& input, const Array& output, const Array& kept) override;
  void dropout_gradient(double factor, const Array& kept, const Array& input, const Array& output) override;

  void optimizer_step(const OptimizerRule&, std::span<const RuleOperands>) override;

 private:
  struct Context {
    Context(Device, MemoryPool::Keeps, CpuStream::Mode, int threads);

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
