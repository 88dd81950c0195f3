// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn.h>

namespace tutti {

/// The functions of cuDNN that convolutions need. They are found when the program runs, so that one built with cuDNN
/// also works where it is not installed.
struct CudnnLibrary {
#define TUTTI_CUDNN_FUNCTIONS(with)                                                                             \
  with(cudnnCreate) with(cudnnDestroy) with(cudnnSetStream) with(cudnnGetErrorString) with(cudnnGetVersion)     \
      with(cudnnCreateTensorDescriptor) with(cudnnSetTensor4dDescriptor) with(cudnnDestroyTensorDescriptor)     \
          with(cudnnCreateFilterDescriptor) with(cudnnSetFilter4dDescriptor) with(cudnnDestroyFilterDescriptor) \
              with(cudnnCreateConvolutionDescriptor) with(cudnnSetConvolution2dDescriptor)                      \
                  with(cudnnSetConvolutionMathType) with(cudnnSetConvolutionGroupCount)                         \
                      with(cudnnDestroyConvolutionDescriptor) with(cudnnGetConvolutionForwardAlgorithm_v7)      \
                          with(cudnnGetConvolutionBackwardDataAlgorithm_v7)                                     \
                              with(cudnnGetConvolutionBackwardFilterAlgorithm_v7) with(cudnnConvolutionForward) \
                                  with(cudnnConvolutionBackwardData) with(cudnnConvolutionBackwardFilter)

#define TUTTI_CUDNN_MEMBER(name) decltype(&::name) name = nullptr;
  TUTTI_CUDNN_FUNCTIONS(TUTTI_CUDNN_MEMBER)
#undef TUTTI_CUDNN_MEMBER
};

/// Null where there is no cuDNN of the version that the build knows. Looked for once, by the first call.
const CudnnLibrary* cudnn_library();

}  // namespace tutti
