// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/libraries/cudnn_plan.h>

#include <tutti/backend/cuda/libraries/cudnn_check.h>
#include <tutti/backend/cuda/libraries/tf32.h>

#include <algorithm>
#include <limits>

namespace tutti {
namespace {

constexpr std::size_t kMostConvolutionWorkspace = std::size_t{64} << 20U;  // bytes
constexpr std::int64_t kMostElements = std::numeric_limits<std::int32_t>::max();

struct CudnnType {
  cudnnDataType_t data;
  cudnnDataType_t compute;
};

std::optional<CudnnType> type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return CudnnType{CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT};
    case DType::f64: return CudnnType{CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE};
    default: return std::nullopt;
  }
}

int length(const Array& array, std::int64_t axis) { return static_cast<int>(array.length(axis)); }

/// What cuDNN multiplies a result by, and what was there before, in the type that it computes in.
struct Scales {
  double one_f64 = 1.0;
  float one_f32 = 1.0F;
  double zero = 0.0;  // all its bits are zero: it is f32's as well
  const void* one(const CudnnType& type) const {
    return type.compute == CUDNN_DATA_DOUBLE ? static_cast<const void*>(&one_f64) : &one_f32;
  }
};

}  // namespace

bool is_unsupported(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(static_cast<int>(status)) == CUDNN_STATUS_NOT_SUPPORTED;
}

std::optional<CudnnPlan::Key> CudnnPlan::key(const ConvolutionCall& call) {
  if (!type_of(call.input.dtype())) return std::nullopt;
  Key key{static_cast<std::int64_t>(call.pass), static_cast<std::int64_t>(call.input.dtype())};
  std::size_t next = 2;
  for (const auto* pair : {&call.geometry.stride, &call.geometry.padding, &call.geometry.dilation})
    for (const std::int64_t value : *pair) key[next++] = value;
  key[next++] = call.geometry.groups;
  for (const Array* array : {&call.input, &call.weight, &call.output}) {
    // Its fastest algorithms read 16 bytes at a time.
    if (array->size() > kMostElements || reinterpret_cast<std::uintptr_t>(array->raw_data()) % 16 != 0)
      return std::nullopt;
    for (const std::int64_t value : array->shape()) key[next++] = value;
  }
  if (std::ranges::any_of(key, [](std::int64_t value) { return value > kMostElements; })) return std::nullopt;
  return key;
}

CudnnPlan::CudnnPlan(const CudnnLibrary& cudnn, const ConvolutionCall& call) : cudnn_(cudnn) {
  const Device device = call.input.device();
  const CudnnType type = *type_of(call.input.dtype());
  const auto tensor = [&](const Array& array) {
    cudnnTensorDescriptor_t made = nullptr;
    TUTTI_CUDNN(device, call.name, cudnn.cudnnCreateTensorDescriptor(&made));
    CudnnOwned<cudnnTensorDescriptor_t> owned(made, {&cudnn});
    TUTTI_CUDNN(device, call.name,
                cudnn.cudnnSetTensor4dDescriptor(made, CUDNN_TENSOR_NCHW, type.data, length(array, 0), length(array, 1),
                                                 length(array, 2), length(array, 3)));
    return owned;
  };
  input_ = tensor(call.input);
  output_ = tensor(call.output);

  cudnnFilterDescriptor_t filter = nullptr;
  TUTTI_CUDNN(device, call.name, cudnn.cudnnCreateFilterDescriptor(&filter));
  weight_ = {filter, {&cudnn}};
  const Array& w = call.weight;
  TUTTI_CUDNN(device, call.name,
              cudnn.cudnnSetFilter4dDescriptor(filter, type.data, CUDNN_TENSOR_NCHW, length(w, 0), length(w, 1),
                                               length(w, 2), length(w, 3)));

  cudnnConvolutionDescriptor_t convolution = nullptr;
  TUTTI_CUDNN(device, call.name, cudnn.cudnnCreateConvolutionDescriptor(&convolution));
  convolution_ = {convolution, {&cudnn}};
  const auto at = [](const std::array<std::int64_t, 2>& pair, std::size_t i) { return static_cast<int>(pair[i]); };
  const Conv2dGeometry& g = call.geometry;
  TUTTI_CUDNN(device, call.name,
              cudnn.cudnnSetConvolution2dDescriptor(convolution, at(g.padding, 0), at(g.padding, 1), at(g.stride, 0),
                                                    at(g.stride, 1), at(g.dilation, 0), at(g.dilation, 1),
                                                    CUDNN_CROSS_CORRELATION, type.compute));
  TUTTI_CUDNN(device, call.name, cudnn.cudnnSetConvolutionGroupCount(convolution, static_cast<int>(g.groups)));
  // By default cuDNN multiplies f32 in TF32.
  const bool exact = type.data == CUDNN_DATA_FLOAT && !tf32_allowed();
  TUTTI_CUDNN(device, call.name,
              cudnn.cudnnSetConvolutionMathType(convolution, exact ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH));
}

template <class Performance, class Ask>
bool CudnnPlan::take_best(const ConvolutionCall& call, const char* name, const Ask& ask) {
  constexpr int kMost = 10;
  std::array<Performance, kMost> offers{};
  int count = 0;
  const cudnnStatus_t status = ask(kMost, &count, offers.data());
  if (is_unsupported(status)) return false;
  if (status != CUDNN_STATUS_SUCCESS) cuda_runtime::raise_cudnn_error(status, name, call.input.device(), call.name);
  for (int i = 0; i < count; ++i) {  // the fastest first
    const Performance& offer = offers[static_cast<std::size_t>(i)];
    if (offer.status != CUDNN_STATUS_SUCCESS || offer.determinism != CUDNN_DETERMINISTIC ||
        offer.memory > kMostConvolutionWorkspace)
      continue;
    algorithm_ = static_cast<int>(offer.algo);
    workspace_ = offer.memory;
    return true;
  }
  return false;
}

bool CudnnPlan::choose_algorithm(cudnnHandle_t handle, const ConvolutionCall& call) {
  auto *const x = input_.get(), *const y = output_.get();
  auto* const w = weight_.get();
  auto* const convolution = convolution_.get();
  switch (call.pass) {
    case ConvolutionPass::output:
      return take_best<cudnnConvolutionFwdAlgoPerf_t>(
          call, "cudnnGetConvolutionForwardAlgorithm_v7", [&](int most, int* count, auto* offers) {
            return cudnn_.cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, convolution, y, most, count, offers);
          });
    case ConvolutionPass::input_gradient:
      return take_best<cudnnConvolutionBwdDataAlgoPerf_t>(call, "cudnnGetConvolutionBackwardDataAlgorithm_v7",
                                                          [&](int most, int* count, auto* offers) {
                                                            return cudnn_.cudnnGetConvolutionBackwardDataAlgorithm_v7(
                                                                handle, w, y, convolution, x, most, count, offers);
                                                          });
    case ConvolutionPass::weight_gradient:
      return take_best<cudnnConvolutionBwdFilterAlgoPerf_t>(
          call, "cudnnGetConvolutionBackwardFilterAlgorithm_v7", [&](int most, int* count, auto* offers) {
            return cudnn_.cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, x, y, convolution, w, most, count,
                                                                        offers);
          });
  }
  return false;
}

std::shared_ptr<const CudnnPlan> CudnnPlan::make(const CudnnLibrary& cudnn, cudnnHandle_t handle,
                                                 const ConvolutionCall& call) {
  std::shared_ptr<CudnnPlan> plan(new CudnnPlan(cudnn, call));
  return plan->choose_algorithm(handle, call) ? plan : nullptr;
}

cudnnStatus_t CudnnPlan::run(cudnnHandle_t handle, const ConvolutionCall& call, void* workspace) const {
  const Scales scales;
  const void* const one = scales.one(*type_of(call.input.dtype()));
  const void* const zero = &scales.zero;
  void *const x = call.input.raw_data(), *const w = call.weight.raw_data(), *const y = call.output.raw_data();
  const auto checked = [&](cudnnStatus_t status, const char* name) {
    if (status != CUDNN_STATUS_SUCCESS && !is_unsupported(status))
      cuda_runtime::raise_cudnn_error(status, name, call.input.device(), call.name);
    return status;
  };
  switch (call.pass) {
    case ConvolutionPass::output:
      return checked(cudnn_.cudnnConvolutionForward(handle, one, input_.get(), x, weight_.get(), w, convolution_.get(),
                                                    static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_), workspace,
                                                    workspace_, zero, output_.get(), y),
                     "cudnnConvolutionForward");
    case ConvolutionPass::input_gradient:
      return checked(
          cudnn_.cudnnConvolutionBackwardData(handle, one, weight_.get(), w, output_.get(), y, convolution_.get(),
                                              static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_), workspace,
                                              workspace_, zero, input_.get(), x),
          "cudnnConvolutionBackwardData");
    case ConvolutionPass::weight_gradient:
      return checked(
          cudnn_.cudnnConvolutionBackwardFilter(handle, one, input_.get(), x, output_.get(), y, convolution_.get(),
                                                static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_), workspace,
                                                workspace_, zero, weight_.get(), w),
          "cudnnConvolutionBackwardFilter");
  }
  return CUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace tutti
