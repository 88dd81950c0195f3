// SPDX-License-Identifier: Apache-2.0
// The functions of cuFFT that Fourier transforms need, in place of NVIDIA's library. Transforms are really computed, in
// f64 and in the stream's order, by their definition; their operands are watched. As cuFFT may, those from complex to
// real numbers spoil their input.
#include <tutti/tests/backend/cuda/recording/cuda_machine.h>

#include <cufft.h>
#include <cufftXt.h>

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numbers>

namespace tutti::testing {

namespace {

using Lock = CudaMachine::Lock;

constexpr std::size_t kWorkspace = 4096;  // bytes that each plan asks for

bool is_complex(cudaDataType type) { return type == CUDA_C_32F || type == CUDA_C_64F; }
bool is_double(cudaDataType type) { return type == CUDA_R_64F || type == CUDA_C_64F; }

struct Transform {
  void* handle = nullptr;  // of the machine's
  long long length = 0;
  long long rows = 0;
  cudaDataType from = CUDA_R_32F;
  cudaDataType to = CUDA_R_32F;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  bool allocates = true;

  std::size_t row(cudaDataType type, cudaDataType other) const {
    const auto numbers = static_cast<std::size_t>(is_complex(type) && !is_complex(other) ? length / 2 + 1 : length);
    return numbers * (is_complex(type) ? 2 : 1);
  }
  std::size_t bytes(cudaDataType type, cudaDataType other) const {
    return static_cast<std::size_t>(rows) * row(type, other) * (is_double(type) ? sizeof(double) : sizeof(float));
  }

  template <class T> void run(void* input, void* output, double sign) const {
    const std::size_t from_row = row(from, to);
    const std::size_t to_row = row(to, from);
    const auto count = static_cast<std::size_t>(length);
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      T* const x = static_cast<T*>(input) + r * from_row;
      T* const y = static_cast<T*>(output) + r * to_row;
      const auto number = [&](std::size_t j) -> std::complex<double> {
        if (!is_complex(from)) return x[j];
        if (2 * j < from_row) return {x[2 * j], x[2 * j + 1]};
        return {x[2 * (count - j)], -x[2 * (count - j) + 1]};
      };
      for (std::size_t k = 0; k < (is_complex(to) ? to_row / 2 : to_row); ++k) {
        std::complex<double> sum = 0;
        for (std::size_t j = 0; j < count; ++j)
          sum += number(j) * std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(j * k % count) /
                                                 static_cast<double>(count));
        y[is_complex(to) ? 2 * k : k] = static_cast<T>(sum.real());
        if (is_complex(to)) y[2 * k + 1] = static_cast<T>(sum.imag());
      }
      if (!is_complex(to)) std::fill_n(x, from_row, std::numeric_limits<T>::quiet_NaN());
    }
  }
};

std::map<cufftHandle, Transform> plans;  // guarded by the machine's mutex
cufftHandle last_handle = 100;

template <class F> cufftResult cufft_call(const char* name, F&& body) {
  CudaMachine* machine = CudaMachine::current();
  if (machine == nullptr) return CUFFT_SETUP_FAILED;
  Lock lock(machine->mutex);
  const cudaError_t error = machine->enter(name, {}, false);
  if (error == cudaErrorMemoryAllocation) return CUFFT_ALLOC_FAILED;
  return error == cudaSuccess ? body(*machine, lock) : CUFFT_EXEC_FAILED;
}

template <class F> cufftResult plan_call(const char* name, cufftHandle handle, F&& body) {
  return cufft_call(name, [&](CudaMachine& machine, Lock& lock) {
    const auto found = plans.find(handle);
    if (found == plans.end()) {
      machine.fault(std::string(name) + " of a plan that is not there");
      return CUFFT_INVALID_PLAN;
    }
    return body(machine, lock, found->second);
  });
}

}  // namespace

extern "C" {

cufftResult cufftCreate(cufftHandle* handle) {
  return cufft_call("cufftCreate", [&](CudaMachine& machine, Lock&) {
    *handle = ++last_handle;
    plans[*handle].handle = machine.make_handle("a plan of cuFFT");
    return CUFFT_SUCCESS;
  });
}

cufftResult cufftDestroy(cufftHandle handle) {
  CudaMachine* machine = CudaMachine::current();
  if (machine == nullptr) return CUFFT_SETUP_FAILED;
  const Lock lock(machine->mutex);
  const auto found = plans.find(handle);
  if (found == plans.end()) {
    machine->fault("cufftDestroy of a plan that is not there");
    return CUFFT_INVALID_PLAN;
  }
  machine->destroy_handle("cufftDestroy", found->second.handle);
  plans.erase(found);
  return machine->enter("cufftDestroy", {}, true) == cudaSuccess ? CUFFT_SUCCESS : CUFFT_INTERNAL_ERROR;
}

cufftResult cufftSetAutoAllocation(cufftHandle handle, int allocate) {
  return plan_call("cufftSetAutoAllocation", handle, [&](CudaMachine&, Lock&, Transform& transform) {
    transform.allocates = allocate != 0;
    return CUFFT_SUCCESS;
  });
}

cufftResult cufftXtMakePlanMany(cufftHandle handle, int rank, long long* n, long long* from_shape, long long, long long,
                                cudaDataType from, long long* to_shape, long long, long long, cudaDataType to,
                                long long batch, std::size_t* workspace, cudaDataType) {
  return plan_call("cufftXtMakePlanMany", handle, [&](CudaMachine& machine, Lock&, Transform& transform) {
    if (rank != 1 || from_shape != nullptr || to_shape != nullptr || transform.allocates || *n < 1 || batch < 1 ||
        is_double(from) != is_double(to)) {
      machine.fault("cufftXtMakePlanMany of what the recorder does not know");
      return CUFFT_INVALID_VALUE;
    }
    transform.length = *n;
    transform.rows = batch;
    transform.from = from;
    transform.to = to;
    *workspace = kWorkspace;
    return CUFFT_SUCCESS;
  });
}

cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream) {
  return plan_call("cufftSetStream", handle, [&](CudaMachine&, Lock&, Transform& transform) {
    transform.stream = stream;
    return CUFFT_SUCCESS;
  });
}

cufftResult cufftSetWorkArea(cufftHandle handle, void* workspace) {
  return plan_call("cufftSetWorkArea", handle, [&](CudaMachine&, Lock&, Transform& transform) {
    transform.workspace = workspace;
    return CUFFT_SUCCESS;
  });
}

cufftResult cufftXtExec(cufftHandle handle, void* input, void* output, int direction) {
  return plan_call("cufftXtExec", handle, [&](CudaMachine& machine, Lock& lock, Transform& transform) {
    SimulatedStream* stream = machine.stream("cufftXtExec", transform.stream);
    if (stream == nullptr) return CUFFT_INVALID_VALUE;
    machine.check_device("cufftXtExec", *stream);
    const bool forward = is_complex(transform.from) ? is_complex(transform.to) && direction == CUFFT_FORWARD : true;
    if (!is_complex(transform.from) && direction != CUFFT_FORWARD) machine.fault("cufftXtExec: real numbers, inverse");
    if (!is_complex(transform.to) && direction != CUFFT_INVERSE) machine.fault("cufftXtExec: to real numbers, forward");
    const std::size_t alignment = 2 * (is_double(transform.from) ? sizeof(double) : sizeof(float));
    for (const void* data : {input, output})
      if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0)
        machine.fault("cufftXtExec of memory that is not aligned to complex numbers");
    const double sign = forward ? -1 : 1;
    const Transform own = transform;
    machine.enqueue(lock, *stream,
                    {"cufftXtExec",
                     [own, input, output, sign] {
                       is_double(own.from) ? own.run<double>(input, output, sign) : own.run<float>(input, output, sign);
                     },
                     {},
                     {}},
                    {{input, own.bytes(own.from, own.to), !is_complex(own.to)},
                     {output, own.bytes(own.to, own.from), true},
                     {own.workspace, kWorkspace, true}});
    return CUFFT_SUCCESS;
  });
}

}  // extern "C"

}  // namespace tutti::testing
