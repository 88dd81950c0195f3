// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/calls/device_graph.h>
#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/calls/parameter_macros.h>
#include <tutti/backend/elementwise/call.h>
#include <tutti/backend/elementwise/step.h>
#include <tutti/backend/formulas/optimizer_rules.h>
#include <tutti/backend/memory/memory_pool.h>
#include <tutti/backend/stream.h>

#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace tutti {

class CustomKernel;

/// Drives all devices of one kind. Users call the functions of `backend/operations.h`, which check their operands, make
/// the output and call the backend of its device; a backend may therefore trust shapes, dtypes and devices, and that
/// outputs have elements. Of narrow dtypes (bf16, f16, i8, u8) it sees what moves elements, casts, elementwise
/// operations and `scatter`, and the kernels for which it says so below; for all else they are widened before. Every
/// kernel is queued on the compute stream of its output's device. Thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;

  // --- devices
  virtual void check(Device) const = 0;  ///< throws `DeviceError` if there is no such device
  virtual MemoryPool& pool(Device) = 0;
  virtual Stream& compute_stream(Device) = 0;
  virtual Stream& communication_stream(Device) = 0;
  /// Makes a graph of what `work` has this backend queue on the device's compute stream: nothing of it runs now. Work
  /// of other threads goes on as always. `work` passes no values to or from the host. Temporary memory comes from
  /// `scratch`, which nobody else uses and which outlives the graph. CaptureError if the device cannot do it. Null:
  /// this kind of device has no graphs.
  virtual std::unique_ptr<DeviceGraph> make_graph(Device, MemoryPool& scratch, const std::function<void()>& work);
  /// Does what `elementwise` would for each step in turn, bit by bit: replays of captured steps call it. Steps may be
  /// done for some elements first, then for others: all operands are contiguous and of one size, but for inputs of
  /// stride 0, and those that share memory begin at the same place. Steps outlive the queued work. Default: one by one.
  virtual void elementwise_chain(std::span<const ElementwiseStep>);

  // --- moving data to and from a device. Host pointers are row-major and contiguous, as is the array.
  virtual void copy_from_host(const void* from, const Array& to) = 0;  ///< `from` may be reused on return
  virtual void copy_to_host(const Array& from, void* to) = 0;          ///< waits for the compute stream
  /// Copies from another device, of the same kind or of any but the CPU's; same shape and dtype, contiguous. Default:
  /// through the host.
  virtual void copy_from_device(const Array& from, const Array& to);
  /// A number of a program's text, without axes, for operands: nobody writes to it. Others may have the same array.
  virtual Array literal(Scalar, DType, Device);

  // --- properties of kernels
  /// True if `matmul`, the kernels of convolutions, or those of attention take a narrow dtype as it is, with sums in
  /// f32; else they see widened operands.
  virtual bool multiplies(DType) const { return false; }
  virtual bool convolves(DType) const { return false; }
  virtual bool attends(DType) const { return false; }
  /// True if `linear` of a narrow dtype rounds after this activation, not before it.
  virtual bool rounds_after(LinearActivation activation) const { return activation != LinearActivation::gelu; }
  /// True if this kind of device has a kernel, and its gradient, for what others would do one after the other.
  virtual bool has_fused(FusedKernel) const { return false; }
  /// True if that kernel takes a narrow dtype: normalize_channels planes of it, recurrent_steps a weight of it beside
  /// f32 (attention: `attends`); else they see widened operands.
  virtual bool takes_narrow(FusedKernel, DType) const { return false; }
  /// True if kernels take what stands at `RandomCall::place` (`placed`, backend/formulas/philox.h, in the order of the
  /// device's work): then captured steps' graphs hold them. Else `place` is null in every call.
  virtual bool draws_at_places() const { return false; }
  /// True if `custom` runs this kernel of a program on the device. Default: if it has a function for the device's kind.
  virtual bool runs(const CustomKernel&, Device) const;

  /// Adds the bias to linear's product in `output`, then applies the activation.
  void finish_linear(const Array& bias, LinearActivation, const Array& output);

 protected:
  // Arrays among the parameters of kernels: read, written, changed, several written.
  using In = const Array&;
  using Out = const Array&;
  using InOut = const Array&;
  using Outs = std::span<const Array>;

 public:
  // --- kernels: backend/kernel_list.h says what each does
#define TUTTI_KERNEL(name, ...) virtual void name(TUTTI_PARAMETERS(__VA_ARGS__)) = 0;
#define TUTTI_KERNEL_WITH_DEFAULT(name, ...) virtual void name(TUTTI_PARAMETERS(__VA_ARGS__));
#include <tutti/backend/kernel_list.h>
};

}  // namespace tutti
