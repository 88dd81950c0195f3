// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/backend.h>
#include <tutti/backend/calls/parameter_macros.h>
#include <tutti/backend/kernel.h>

#include <functional>
#include <memory>

namespace tutti {

/// A backend whose kernels all go to one function of the class derived from it, which overloads it for those that it
/// treats otherwise: `template <class Kernel, class... Arguments> void call(Kernel, const Arguments&...)`, with
/// `Kernel` one of backend/kernel.h. Nothing is erased: it is a call with the types of the kernel's arguments.
template <class Derived> class KernelDispatch : public Backend {
 public:
#define TUTTI_KERNEL(name, ...)                                                      \
  void name(TUTTI_PARAMETERS(__VA_ARGS__)) override {                                \
    static_cast<Derived&>(*this).call(kernel::name{}, TUTTI_ARGUMENTS(__VA_ARGS__)); \
  }
#include <tutti/backend/kernel_list.h>
};

/// A backend that decorates another one: all but the kernels goes there as it is, and `call` sends each kernel there
/// with `Kernel::run(inner(), arguments...)`.
template <class Derived> class ForwardingBackend : public KernelDispatch<Derived> {
 public:
  /// The other one outlives this.
  explicit ForwardingBackend(Backend& inner) : inner_(inner) {}

  void check(Device device) const override { inner_.check(device); }
  MemoryPool& pool(Device device) override { return inner_.pool(device); }
  Stream& compute_stream(Device device) override { return inner_.compute_stream(device); }
  Stream& communication_stream(Device device) override { return inner_.communication_stream(device); }
  std::unique_ptr<DeviceGraph> make_graph(Device device, MemoryPool& scratch,
                                          const std::function<void()>& work) override {
    return inner_.make_graph(device, scratch, work);
  }
  void copy_from_host(const void* from, const Array& to) override { inner_.copy_from_host(from, to); }
  void copy_to_host(const Array& from, void* to) override { inner_.copy_to_host(from, to); }
  void copy_from_device(const Array& from, const Array& to) override { inner_.copy_from_device(from, to); }
  Array literal(Scalar value, DType dtype, Device device) override { return inner_.literal(value, dtype, device); }
  bool multiplies(DType dtype) const override { return inner_.multiplies(dtype); }
  bool convolves(DType dtype) const override { return inner_.convolves(dtype); }
  bool attends(DType dtype) const override { return inner_.attends(dtype); }
  bool rounds_after(LinearActivation activation) const override { return inner_.rounds_after(activation); }
  bool has_fused(FusedKernel kernel) const override { return inner_.has_fused(kernel); }
  bool takes_narrow(FusedKernel kernel, DType dtype) const override { return inner_.takes_narrow(kernel, dtype); }
  bool draws_at_places() const override { return inner_.draws_at_places(); }
  bool runs(const CustomKernel& kernel, Device device) const override { return inner_.runs(kernel, device); }

 protected:
  Backend& inner() const noexcept { return inner_; }

 private:
  Backend& inner_;
};

}  // namespace tutti
