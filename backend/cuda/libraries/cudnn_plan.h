// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/libraries/convolution_library.h>
#include <tutti/backend/cuda/libraries/cudnn_library.h>

#include <array>
#include <memory>
#include <optional>

namespace tutti {

struct CudnnDestroy {
  const CudnnLibrary* cudnn = nullptr;
  void operator()(cudnnHandle_t handle) const noexcept { cudnn->cudnnDestroy(handle); }
  void operator()(cudnnTensorDescriptor_t tensor) const noexcept { cudnn->cudnnDestroyTensorDescriptor(tensor); }
  void operator()(cudnnFilterDescriptor_t filter) const noexcept { cudnn->cudnnDestroyFilterDescriptor(filter); }
  void operator()(cudnnConvolutionDescriptor_t convolution) const noexcept {
    cudnn->cudnnDestroyConvolutionDescriptor(convolution);
  }
};
template <class Handle> using CudnnOwned = std::unique_ptr<std::remove_pointer_t<Handle>, CudnnDestroy>;

/// True if a status says that cuDNN does not do this, rather than that something went wrong.
bool is_unsupported(cudnnStatus_t);

/// How cuDNN does one convolution of one geometry: its descriptors, and the fastest deterministic algorithm.
class CudnnPlan {
 public:
  using Key = std::array<std::int64_t, 21>;

  /// Everything that decides on the plan; nullopt for what cuDNN cannot be asked for.
  static std::optional<Key> key(const ConvolutionCall&);
  /// Null if cuDNN has no algorithm for it that may be used. With the device current.
  static std::shared_ptr<const CudnnPlan> make(const CudnnLibrary&, cudnnHandle_t, const ConvolutionCall&);

  std::size_t workspace() const noexcept { return workspace_; }  ///< bytes
  /// Queues the call, on the handle's stream. Of the statuses only that it is unsupported is returned, others throw.
  cudnnStatus_t run(cudnnHandle_t, const ConvolutionCall&, void* workspace) const;

 private:
  CudnnPlan(const CudnnLibrary&, const ConvolutionCall&);
  bool choose_algorithm(cudnnHandle_t, const ConvolutionCall&);
  template <class Performance, class Ask> bool take_best(const ConvolutionCall&, const char* name, const Ask&);

  const CudnnLibrary& cudnn_;
  CudnnOwned<cudnnTensorDescriptor_t> input_;
  CudnnOwned<cudnnFilterDescriptor_t> weight_;
  CudnnOwned<cudnnTensorDescriptor_t> output_;
  CudnnOwned<cudnnConvolutionDescriptor_t> convolution_;
  int algorithm_ = 0;  // value of the pass's own enumeration
  std::size_t workspace_ = 0;
};

}  // namespace tutti
