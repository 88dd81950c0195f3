// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/cuda/runtime/cuda_stream.h>
#include <tutti/backend/memory/memory_pool.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace tutti {

/// The array of a convolution that is computed, from the two others.
enum class ConvolutionPass : std::uint8_t { output, input_gradient, weight_gradient };

/// The arguments of a convolution. Where an array's gradient is computed, the gradient stands in the array's place.
struct ConvolutionCall {
  std::string_view name;
  ConvolutionPass pass;
  Conv2dGeometry geometry;
  Array input;
  Array weight;
  Array output;
};

/// A vendor's library of convolutions, on one device. Thread-safe.
class ConvolutionLibrary {
 public:
  virtual ~ConvolutionLibrary() = default;
  /// Queues the call on a stream of the device; temporary memory comes from the pool. False, and nothing is queued: the
  /// library is not there, or has nothing deterministic for this.
  virtual bool convolve(const ConvolutionCall&, CudaStream&, MemoryPool&) = 0;
};

/// The library of a device. Defined for cuDNN in cudnn_convolutions.cpp, and for builds without it in
/// no_convolution_library.cpp.
std::unique_ptr<ConvolutionLibrary> make_convolution_library(Device);

}  // namespace tutti
