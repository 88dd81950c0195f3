// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/export/tracing_calls.h>

#include <tutti/backend/capture/capture.h>
#include <tutti/backend/forwarding_backend.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <span>

namespace tutti::onnx {

class TracingCalls final : public ForwardingBackend<TracingCalls> {
 public:
  TracingCalls(Device device, KernelNodes& nodes, TracedMemory& memory)
      : ForwardingBackend(decorated_backend(device.kind)), device_(device), nodes_(nodes), memory_(memory) {}

  Device device() const noexcept { return device_; }

  template <class Kernel, class... Arguments> void call(Kernel kernel, const Arguments&... arguments) {
    const Suspension off(*this);
    nodes_.add(kernel, arguments...);
    Kernel::run(inner(), arguments...);
  }

  // Not from a device's own, where equal numbers may be one array.
  Array literal(Scalar value, DType dtype, Device device) override { return Backend::literal(value, dtype, device); }
  // So that operators which lack 16 bits, in the file's version or where the file will run, stand between casts.
  bool multiplies(DType) const override { return false; }
  bool convolves(DType) const override { return false; }
  bool attends(DType) const override { return false; }
  // So that elementwise structs of programs are made of operations.
  bool runs(const CustomKernel&, Device) const override { return false; }
  void copy_from_host(const void* from, const Array& to) override {
    const Suspension off(*this);
    inner().copy_from_host(from, to);
    memory_.write_constant(to);
  }
  void copy_to_host(const Array& from, void* to) override {
    if (memory_.varies(from))
      raise(
          "[save_onnx] the model reads {} on the host while it runs: what it does with the values would be the same "
          "for "
          "every input",
          to_string(from.shape()));
    inner().copy_to_host(from, to);
  }
  void copy_from_device(const Array& from, const Array& to) override {
    raise("[save_onnx] the model copies from {} to {}: a model to be saved works on one device",
          to_string(from.device()), to_string(to.device()));
  }

 private:
  /// While it lives, the thread's calls are its own.
  class Suspension {
   public:
    explicit Suspension(TracingCalls& calls) : calls_(calls) { redirect_backend({}, nullptr); }
    ~Suspension() { redirect_backend(calls_.device_.kind, &calls_); }
    Suspension(const Suspension&) = delete;
    Suspension& operator=(const Suspension&) = delete;

   private:
    TracingCalls& calls_;
  };

  Device device_;
  KernelNodes& nodes_;
  TracedMemory& memory_;
};

TraceScope::TraceScope(Device device, KernelNodes& nodes, TracedMemory& memory) {
  if (active_capture() != nullptr || &backend_for(device) != &decorated_backend(device.kind))
    raise<CaptureError>("[save_onnx] this thread captures a step, or saves another model");
  calls_ = std::make_unique<TracingCalls>(device, nodes, memory);
  redirect_backend(device.kind, calls_.get());
}

TraceScope::~TraceScope() { redirect_backend({}, nullptr); }

}  // namespace tutti::onnx
