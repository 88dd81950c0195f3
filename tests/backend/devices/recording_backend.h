// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/elementwise/formulas.h>
#include <tutti/backend/forwarding_backend.h>
#include <tutti/backend/raise.h>

#include <tutti/tests/backend/devices/manual_stream.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// A backend from outside the tree, as small as can be: host memory, kernels that run at once, and a list of the calls
/// it got. Elementwise operations work on contiguous f32; everything else that is not needed by the tests throws.
class RecordingBackend final : public KernelDispatch<RecordingBackend> {
 public:
  std::vector<std::string> calls;

  void check(Device device) const override {
    if (device.index > 1) raise<DeviceError>("[device] {}: there are two recording devices", to_string(device));
  }
  MemoryPool& pool(Device device) override { return part(device).pool; }
  Stream& compute_stream(Device device) override { return part(device).compute; }
  Stream& communication_stream(Device device) override { return part(device).communication; }

  void copy_from_host(const void* from, const Array& to) override {
    calls.push_back("copy_from_host " + to_string(to.shape()));
    std::memcpy(to.raw_data(), from, to.bytes());
  }
  void copy_to_host(const Array& from, void* to) override {
    calls.push_back("copy_to_host " + to_string(from.shape()));
    std::memcpy(to, from.raw_data(), from.bytes());
  }

  template <class Kernel, class... Arguments> void call(Kernel, const Arguments&... arguments) {
    if constexpr (Kernel::has_default)
      Kernel::run_default(*this, arguments...);
    else
      refuse(Kernel::name);
  }
  void call(kernel::fill, const Array& to, Scalar value) {
    calls.push_back("fill " + to_string(to.shape()));
    for (std::int64_t i = 0; i < to.size(); ++i) to.data<float>()[i] = value.to<float>();
  }

  void call(kernel::elementwise, const ElementwiseCall& call, std::span<const Array> inputs, const Array& output) {
    using namespace elementwise;
    std::uint16_t index = 0;
    AllOperations::for_each([&]<class Operation>(std::type_identity<Operation>) {
      if (index++ != call.operation || call.part != ElementwiseCall::Part::value) return;
      calls.push_back("elementwise " + std::string(Operation::name));
      const auto operation = from_call<Operation>(call);
      for (std::int64_t i = 0; i < output.size(); ++i)
        if constexpr (!in_domain<float>(Operation::domain))
          refuse(Operation::name);
        else if constexpr (requires(float x) {
                             { operation.value(x) } -> std::same_as<float>;
                           })
          output.data<float>()[i] = operation.value(at(inputs[0], i));
        else if constexpr (requires(float x) {
                             { operation.value(x, x) } -> std::same_as<float>;
                           })
          output.data<float>()[i] = operation.value(at(inputs[0], i), at(inputs[1], i));
    });
  }
  void call(kernel::matmul, const Array& lhs, const Array& rhs, const Array& output) {
    calls.push_back("matmul " + to_string(lhs.strides()) + to_string(rhs.strides()) + to_string(output.shape()));
  }

 private:
  struct HostMemory final : RawMemory {
    void* allocate(std::size_t bytes) override { return std::aligned_alloc(64, bytes); }
    void release(void* data, std::size_t) noexcept override { std::free(data); }
  };
  struct Part {
    Part(Device device, RawMemory& raw) : pool(device, raw), compute(device), communication(device) {}
    MemoryPool pool;
    ManualStream compute;
    ManualStream communication;
  };

  [[noreturn]] static void refuse(std::string_view operation) {
    raise("[{}] the recording device does not do that", operation);
  }
  static float at(const Array& array, std::int64_t i) {
    return array.data<float>()[array.strides().back() == 0 ? 0 : i];
  }
  Part& part(Device device) {
    check(device);
    return parts_.try_emplace(device, device, memory_).first->second;
  }

  HostMemory memory_;
  std::map<Device, Part> parts_;
};

}  // namespace tutti
