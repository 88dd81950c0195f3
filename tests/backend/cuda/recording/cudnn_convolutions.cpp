// SPDX-License-Identifier: Apache-2.0
// The functions of cuDNN that convolutions need, in place of NVIDIA's library. Convolutions are really computed, in f64
// and in the stream's order; descriptors and operands are watched.
#include <tutti/tests/backend/cuda/recording/cuda_machine.h>

#include <fmt/format.h>

#include <cudnn.h>

#include <algorithm>
#include <array>

namespace tutti::testing {

namespace {

using Lock = CudaMachine::Lock;

// What is offered, the fastest first: not deterministic, too greedy, not supported, and one that may be taken.
constexpr int kGood = 3;
constexpr std::size_t kWorkspace = 4096;

struct Block {  // of a tensor's memory, or a filter's
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::array<int, 4> shape{};

  std::size_t size() const { return type == CUDNN_DATA_DOUBLE ? sizeof(double) : sizeof(float); }
  std::size_t count() const {
    std::size_t all = 1;
    for (const int length : shape) all *= static_cast<std::size_t>(length);
    return all;
  }
  std::size_t at(int a, int b, int c, int d) const {
    return static_cast<std::size_t>(((static_cast<std::int64_t>(a) * shape[1] + b) * shape[2] + c) * shape[3] + d);
  }
  double load(const void* data, std::size_t index) const {
    return type == CUDNN_DATA_DOUBLE ? static_cast<const double*>(data)[index] : static_cast<const float*>(data)[index];
  }
  void store(void* data, std::size_t index, double value) const {
    if (type == CUDNN_DATA_DOUBLE)
      static_cast<double*>(data)[index] = value;
    else
      static_cast<float*>(data)[index] = static_cast<float>(value);
  }
};
struct Geometry {
  std::array<int, 2> padding{}, stride{}, dilation{};
  int groups = 1;
  bool set = false;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

// What handles and descriptors hold, under the machine's mutex.
std::map<const void*, cudaStream_t> streams;
std::map<const void*, Block> blocks;
std::map<const void*, Geometry> geometries;

template <class F> cudnnStatus_t cudnn_call(const char* name, F&& body) {
  CudaMachine* machine = CudaMachine::current();
  if (machine == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  Lock lock(machine->mutex);
  const cudaError_t error = machine->enter(name, {}, false);
  if (error == cudaErrorMemoryAllocation) return CUDNN_STATUS_ALLOC_FAILED;
  if (error == cudaErrorNotSupported) return CUDNN_STATUS_NOT_SUPPORTED;
  return error == cudaSuccess ? body(*machine, lock) : CUDNN_STATUS_EXECUTION_FAILED;
}

template <class Handle> cudnnStatus_t make(const char* call, const char* what, Handle* handle) {
  return cudnn_call(call, [&](CudaMachine& machine, Lock&) {
    *handle = reinterpret_cast<Handle>(machine.make_handle(what));
    return CUDNN_STATUS_SUCCESS;
  });
}

// Gone also when it returns an error.
template <class Contents> cudnnStatus_t destroy(const char* call, const void* handle, Contents& contents) {
  CudaMachine* machine = CudaMachine::current();
  if (machine == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  const Lock lock(machine->mutex);
  machine->destroy_handle(call, handle);
  contents.erase(handle);
  return machine->enter(call, {}, true) == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}

/// One convolution: three arrays, of which `pass` says which is computed.
struct Convolution {
  enum class Pass { output, input, weight } pass;
  Block x{}, w{}, y{};
  Geometry geometry{};
  double alpha = 1, beta = 0;
  void *input = nullptr, *weight = nullptr, *output = nullptr;

  bool fits() const {
    if (!geometry.set || x.shape[0] != y.shape[0] || x.shape[1] != w.shape[1] * geometry.groups ||
        y.shape[1] != w.shape[0] || y.shape[1] % geometry.groups != 0)
      return false;
    for (std::size_t i = 0; i < 2; ++i) {
      const int extent = geometry.dilation[i] * (w.shape[i + 2] - 1) + 1;
      if ((x.shape[i + 2] + 2 * geometry.padding[i] - extent) / geometry.stride[i] + 1 != y.shape[i + 2]) return false;
    }
    return true;
  }
  /// Calls `f(element of x, of w, of y)` for each product of the sums.
  template <class F> void for_each_product(const F& f) const {
    for (int n = 0; n < y.shape[0]; ++n)
      for (int k = 0; k < y.shape[1]; ++k)
        for (int row = 0; row < y.shape[2]; ++row)
          for (int column = 0; column < y.shape[3]; ++column)
            for (int c = 0; c < w.shape[1]; ++c)
              for (int r = 0; r < w.shape[2]; ++r)
                for (int s = 0; s < w.shape[3]; ++s) {
                  const int h = row * geometry.stride[0] - geometry.padding[0] + r * geometry.dilation[0];
                  const int v = column * geometry.stride[1] - geometry.padding[1] + s * geometry.dilation[1];
                  if (h < 0 || h >= x.shape[2] || v < 0 || v >= x.shape[3]) continue;
                  const int group = k / (y.shape[1] / geometry.groups);
                  f(x.at(n, group * w.shape[1] + c, h, v), w.at(k, c, r, s), y.at(n, k, row, column));
                }
  }
  void run() const {
    const Block& block = pass == Pass::output ? y : pass == Pass::input ? x : w;
    void* const to = pass == Pass::output ? output : pass == Pass::input ? input : weight;
    std::vector<double> sums(block.count(), 0.0);
    for_each_product([&](std::size_t i, std::size_t j, std::size_t k) {
      if (pass == Pass::output) sums[k] += x.load(input, i) * w.load(weight, j);
      if (pass == Pass::input) sums[i] += w.load(weight, j) * y.load(output, k);
      if (pass == Pass::weight) sums[j] += x.load(input, i) * y.load(output, k);
    });
    for (std::size_t i = 0; i < sums.size(); ++i)
      block.store(to, i, alpha * sums[i] + (beta == 0 ? 0 : beta * block.load(to, i)));
  }
};

double scalar(cudnnDataType_t type, const void* value) {
  return type == CUDNN_DATA_DOUBLE ? *static_cast<const double*>(value) : *static_cast<const float*>(value);
}

bool are_alive(CudaMachine& machine, const char* call, std::initializer_list<const void*> handles) {
  return std::ranges::all_of(handles, [&](const void* handle) { return machine.check_handle(call, handle); });
}

struct Operands {
  cudnnHandle_t handle;
  const void *x, *w, *y, *convolution;  // their descriptors
  int algorithm;
  void* workspace;
  std::size_t workspace_bytes;
  const void *alpha, *beta;
};

cudnnStatus_t queue(const char* call, const Operands& with, Convolution convolution) {
  return cudnn_call(call, [&](CudaMachine& machine, Lock& lock) {
    if (!are_alive(machine, call, {with.handle, with.x, with.w, with.y, with.convolution}))
      return CUDNN_STATUS_BAD_PARAM;
    convolution.x = blocks[with.x];
    convolution.w = blocks[with.w];
    convolution.y = blocks[with.y];
    convolution.geometry = geometries[with.convolution];
    convolution.alpha = scalar(convolution.x.type, with.alpha);
    convolution.beta = scalar(convolution.x.type, with.beta);
    if (!convolution.fits() || with.algorithm != kGood || with.workspace_bytes < kWorkspace) {
      machine.fault(fmt::format("{} of arrays that do not fit, or with another algorithm or less memory", call));
      return CUDNN_STATUS_BAD_PARAM;
    }
    const auto wanted = convolution.x.type == CUDNN_DATA_FLOAT ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
    if (convolution.geometry.math != wanted) machine.fault(fmt::format("{} in TF32", call));
    SimulatedStream* stream = machine.stream(call, streams[with.handle]);
    if (stream == nullptr) return CUDNN_STATUS_BAD_PARAM;
    machine.check_device(call, *stream);
    using Pass = Convolution::Pass;
    const auto bytes = [](const Block& block) { return block.count() * block.size(); };
    machine.enqueue(lock, *stream, {call, [convolution] { convolution.run(); }, {}, {}},
                    {{convolution.input, bytes(convolution.x), convolution.pass == Pass::input},
                     {convolution.weight, bytes(convolution.w), convolution.pass == Pass::weight},
                     {convolution.output, bytes(convolution.y), convolution.pass == Pass::output},
                     {with.workspace, with.workspace_bytes, true}});
    return CUDNN_STATUS_SUCCESS;
  });
}

template <class Performance> cudnnStatus_t offer(const char* call, std::initializer_list<const void*> handles, int most,
                                                 int* count, Performance* offers) {
  return cudnn_call(call, [&](CudaMachine& machine, Lock&) {
    if (!are_alive(machine, call, handles) || most <= kGood) return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i <= kGood; ++i) {
      offers[i] = {};
      offers[i].algo = static_cast<decltype(offers[i].algo)>(i);
      offers[i].status = i == 2 ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
      offers[i].determinism = i == 0 ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC;
      offers[i].memory = i == 1 ? std::size_t{1} << 40U : kWorkspace;
    }
    *count = kGood + 1;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t describe(const char* call, const void* descriptor, const Block& block) {
  return cudnn_call(call, [&](CudaMachine& machine, Lock&) {
    if (!machine.check_handle(call, descriptor)) return CUDNN_STATUS_BAD_PARAM;
    blocks[descriptor] = block;
    return CUDNN_STATUS_SUCCESS;
  });
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() { return 10000 * CUDNN_MAJOR + 100 * CUDNN_MINOR + CUDNN_PATCHLEVEL; }

const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the recording machine"; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return make("cudnnCreate", "a handle of cuDNN", handle); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return destroy("cudnnDestroy", handle, streams); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return cudnn_call("cudnnSetStream", [&](CudaMachine& machine, Lock&) {
    if (!machine.check_handle("cudnnSetStream", handle)) return CUDNN_STATUS_BAD_PARAM;
    streams[handle] = stream;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return make("cudnnCreateTensorDescriptor", "a tensor descriptor of cuDNN", tensor);
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t, cudnnDataType_t type,
                                         int n, int c, int h, int w) {
  return describe("cudnnSetTensor4dDescriptor", tensor, {type, {n, c, h, w}});
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return destroy("cudnnDestroyTensorDescriptor", tensor, blocks);
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  return make("cudnnCreateFilterDescriptor", "a filter descriptor of cuDNN", filter);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type, cudnnTensorFormat_t,
                                         int k, int c, int h, int w) {
  return describe("cudnnSetFilter4dDescriptor", filter, {type, {k, c, h, w}});
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return destroy("cudnnDestroyFilterDescriptor", filter, blocks);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
  return make("cudnnCreateConvolutionDescriptor", "a convolution descriptor of cuDNN", convolution);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h, int pad_w, int u,
                                              int v, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t) {
  return cudnn_call("cudnnSetConvolution2dDescriptor", [&](CudaMachine& machine, Lock&) {
    if (!machine.check_handle("cudnnSetConvolution2dDescriptor", convolution)) return CUDNN_STATUS_BAD_PARAM;
    if (mode != CUDNN_CROSS_CORRELATION) machine.fault("a convolution that turns its kernel");
    geometries[convolution] = {{pad_h, pad_w}, {u, v}, {dilation_h, dilation_w}, 1, true, CUDNN_DEFAULT_MATH};
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  return cudnn_call("cudnnSetConvolutionGroupCount", [&](CudaMachine& machine, Lock&) {
    if (!machine.check_handle("cudnnSetConvolutionGroupCount", convolution)) return CUDNN_STATUS_BAD_PARAM;
    geometries[convolution].groups = groups;
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution, cudnnMathType_t math) {
  return cudnn_call("cudnnSetConvolutionMathType", [&](CudaMachine& machine, Lock&) {
    if (!machine.check_handle("cudnnSetConvolutionMathType", convolution)) return CUDNN_STATUS_BAD_PARAM;
    geometries[convolution].math = math;
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  return destroy("cudnnDestroyConvolutionDescriptor", convolution, geometries);
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t convolution,
                                                     cudnnTensorDescriptor_t y, int most, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* offers) {
  return offer("cudnnGetConvolutionForwardAlgorithm_v7", {handle, x, w, convolution, y}, most, count, offers);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t dy,
                                                          cudnnConvolutionDescriptor_t convolution,
                                                          cudnnTensorDescriptor_t dx, int most, int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* offers) {
  return offer("cudnnGetConvolutionBackwardDataAlgorithm_v7", {handle, w, dy, convolution, dx}, most, count, offers);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t dy,
                                                            cudnnConvolutionDescriptor_t convolution,
                                                            cudnnFilterDescriptor_t dw, int most, int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* offers) {
  return offer("cudnnGetConvolutionBackwardFilterAlgorithm_v7", {handle, x, dy, convolution, dw}, most, count, offers);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_is,
                                      const void* x, cudnnFilterDescriptor_t w_is, const void* w,
                                      cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, std::size_t bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_is, void* y) {
  return queue(
      "cudnnConvolutionForward",
      {handle, x_is, w_is, y_is, convolution, static_cast<int>(algorithm), workspace, bytes, alpha, beta},
      {.pass = Convolution::Pass::output, .input = const_cast<void*>(x), .weight = const_cast<void*>(w), .output = y});
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w_is,
                                           const void* w, cudnnTensorDescriptor_t dy_is, const void* dy,
                                           cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace, std::size_t bytes,
                                           const void* beta, cudnnTensorDescriptor_t dx_is, void* dx) {
  return queue(
      "cudnnConvolutionBackwardData",
      {handle, dx_is, w_is, dy_is, convolution, static_cast<int>(algorithm), workspace, bytes, alpha, beta},
      {.pass = Convolution::Pass::input, .input = dx, .weight = const_cast<void*>(w), .output = const_cast<void*>(dy)});
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_is,
                                             const void* x, cudnnTensorDescriptor_t dy_is, const void* dy,
                                             cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t bytes, const void* beta, cudnnFilterDescriptor_t dw_is,
                                             void* dw) {
  return queue("cudnnConvolutionBackwardFilter",
               {handle, x_is, dw_is, dy_is, convolution, static_cast<int>(algorithm), workspace, bytes, alpha, beta},
               {.pass = Convolution::Pass::weight,
                .input = const_cast<void*>(x),
                .weight = dw,
                .output = const_cast<void*>(dy)});
}

}  // extern "C"

}  // namespace tutti::testing
