// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels of programs, written outside of the library. A backend runs them as its own (backend/kernel_list.h, custom):
// in the order of the device's work, in captured steps and their graphs, and seen by backends that stand around it.

#include <tutti/backend/array.h>
#include <tutti/backend/stream.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

class ThreadPool;
struct ElementRun;

/// The arguments of a kernel's function. The arrays are defined, on one device, and otherwise as the caller has
/// them: of any shapes, dtypes and strides. It reads the inputs and writes all elements of the outputs. The spans are
/// for the time of the call.
struct CustomCall {
  std::span<const Array> inputs;
  std::span<const Array> outputs;
  std::span<const double> parameters;  ///< the CustomKernel's
};

/// The threads of a CPU device, for a kernel that runs on it. Loops are cut by sizes alone, never by the number of
/// threads, so that results do not depend on it.
class CpuThreads {
 public:
  explicit CpuThreads(ThreadPool& pool) noexcept : pool_(&pool) {}

  /// Calls `block(begin, end)` for [0, grain), [grain, 2 grain), ... up to `count`, in any order and on any thread, and
  /// returns when all are done: no block waits for another. The first exception is rethrown. `grain` is about 10,000
  /// simple elements; Error below 1.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t begin, std::int64_t end)>& block) const;
  /// Cuts an output and at most ElementRun::kInputs inputs of its shape, of any strides, into runs that cover each
  /// element once, spread over the threads: `visit` need not know of strides (backend/elementwise/element_run.h).
  /// ShapeError for more inputs, and for other shapes.
  void for_each_run(const Array& output, std::span<const Array> inputs,
                    const std::function<void(const ElementRun&)>& visit) const;

 private:
  ThreadPool* pool_;
};

/// A kernel of a program: its name and, for each kind of device that it runs on, a function. A cheap handle that never
/// changes; captured steps keep copies. Functions are called on several threads at a time where several devices run the
/// kernel.
///
/// Two are equal if one was copied from the other, by `with` too, and their parameters have the same bits. A captured
/// step that is captured again has to make the same calls: so a kernel is made once, not in the step; numbers that
/// differ between its calls are parameters, and those that change from step to step are read from an array.
class CustomKernel {
 public:
  /// A function that does the work. The device's stream calls it, one call at a time and in the order of its work:
  /// inline where streams are, else on the stream's thread (TUTTI_CPU_ASYNC=1), while the memory of the arrays is kept.
  /// It must not call operations on arrays, which would queue themselves behind it. What it throws is the stream's
  /// error.
  using CpuFunction = std::function<void(const CustomCall&, const CpuThreads&)>;
  /// Queues the work on the stream, a cudaStream_t, and returns; called on the thread of the caller, with the device
  /// current. It may call operations on arrays, and let go of arrays that the queued work uses. It asks for errors of
  /// its launches itself (`require_launched`, backend/cuda_elementwise.cuh), since a program may have a CUDA runtime of
  /// its own. It must not wait for the device, nor queue on another stream.
  using CudaFunction = std::function<void(const CustomCall&, void* stream)>;
  /// The same for a registered kind of device: the stream is what its backend has as `compute_stream`.
  using StreamFunction = std::function<void(const CustomCall&, Stream&)>;

  struct Functions {
    CpuFunction cpu{};
    CudaFunction cuda{};
    /// Functions of registered kinds. A kind whose backend stands around another's runs that one's function.
    std::map<DeviceKind, StreamFunction> others{};
    /// False if a graph of the device cannot hold what the functions queue (a library that is bound to a stream, what
    /// the host decides): captured steps then call them in each replay.
    bool in_graphs = true;
  };

  /// The name stands in errors and captures. Error if it is empty, if there is no function at all, and for functions of
  /// the CPU or CUDA among the others.
  CustomKernel(std::string name, Functions);
  /// The same kernel with these parameters, which its functions find in the call.
  CustomKernel with(std::vector<double> parameters) const;

  std::string_view name() const noexcept { return name_; }  ///< lasts until the process ends
  const Functions& functions() const noexcept { return *functions_; }
  bool in_graphs() const noexcept { return functions_->in_graphs; }
  std::span<const double> parameters() const noexcept { return parameters_; }
  bool operator==(const CustomKernel&) const noexcept;

 private:
  std::string_view name_;
  std::shared_ptr<const Functions> functions_;
  std::vector<double> parameters_;
};

/// Runs the kernel on the device of its operands: queues it, as operations are. Outputs are written, and counted so
/// (Array::count_write); one that is changed is among the inputs too. Not called where no output has elements. Error
/// without outputs, or if an operand is undefined; DeviceError if operands are on different devices, or if the kernel
/// has no function for their kind, which it names.
void run_kernel(const CustomKernel&, std::span<const Array> inputs, std::span<const Array> outputs);
/// The same with one output, which it makes, on the device of the inputs. Error without inputs.
Array run_kernel(const CustomKernel&, std::span<const Array> inputs, const Shape&, DType);

namespace detail {
/// The kernel with inputs that are broadcast against each other, of one dtype, and an output of that shape.
Array custom_elementwise(const CustomKernel&, std::span<const Array> inputs, DType output);
/// Throws DeviceError: the kernel has no function for the device.
[[noreturn]] void raise_no_function(const CustomKernel&, Device);
}  // namespace detail

}  // namespace tutti
