// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/libraries/convolution_library.h>

#include <tutti/backend/cuda/libraries/convolution_library_facts.h>

namespace tutti {
namespace {

class NoConvolutionLibrary final : public ConvolutionLibrary {
 public:
  bool convolve(const ConvolutionCall&, CudaStream&, MemoryPool&) override { return false; }
};

}  // namespace

std::unique_ptr<ConvolutionLibrary> make_convolution_library(Device) {
  return std::make_unique<NoConvolutionLibrary>();
}

ThirdParty convolution_library_facts() {
  return {.name = "cuDNN", .version = {}, .note = "this build has none (Meson option cudnn)"};
}

}  // namespace tutti
