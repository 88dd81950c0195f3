// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/convolution.h>
#include <tutti/backend/raise.h>

#include <string_view>

namespace tutti {

using cuda_kernels::ConvolvedAxis;

namespace {

cuda_kernels::Convolution convolution_of(const Conv2dGeometry& geometry, const Shape& input, const Shape& weight,
                                         const Shape& output) {
  const auto axis = [&](std::size_t i) {
    if (input[i + 2] + 2 * geometry.padding[i] > ConvolvedAxis::kMostPadded)
      raise<ShapeError>("[conv2d] images {} with padding {} are too long for CUDA devices: at most {}",
                        to_string(input), geometry.padding[i], ConvolvedAxis::kMostPadded);
    return ConvolvedAxis{input[i + 2],       weight[i + 2],       output[i + 2],
                         geometry.stride[i], geometry.padding[i], geometry.dilation[i]};
  };
  return {input[0], weight[1], weight[0] / geometry.groups, axis(0), axis(1), geometry.groups};
}

template <class Product> void convolve(CudaBackend& backend, std::string_view name, const Product& product,
                                       const Array& lhs, const Array& rhs, const Array& to) {
  const Storage partial = backend.workspace(to.device(), cuda_kernels::partial_bytes(product, to.dtype()));
  backend.stream(to.device()).launch(name, [&](cudaStream_t s) {
    cuda_kernels::launch_convolution(s, to.dtype(), product, lhs.raw_data(), rhs.raw_data(), to.raw_data(),
                                     partial.data());
  });
}

}  // namespace

bool CudaBackend::convolved_by_library(const ConvolutionCall& call) {
  const Device device = call.output.device();
  return context(device).convolutions->convolve(call, stream(device), pool(device));
}

void CudaBackend::conv2d(const Conv2dGeometry& geometry, const Array& input, const Array& weight, const Array& output) {
  const ConvolutionCall call{"conv2d", ConvolutionPass::output, geometry, input, weight, output};
  if (convolved_by_library(call)) return;
  const cuda_kernels::ForwardProduct product{convolution_of(geometry, input.shape(), weight.shape(), output.shape())};
  convolve(*this, "conv2d", product, weight, input, output);
}

void CudaBackend::conv2d_input_gradient(const Conv2dGeometry& geometry, const Array& gradient, const Array& weight,
                                        const Array& input_gradient) {
  const ConvolutionCall call{
      "conv2d_input_gradient", ConvolutionPass::input_gradient, geometry, input_gradient, weight, gradient};
  if (convolved_by_library(call)) return;
  const cuda_kernels::InputGradientProduct product{
      convolution_of(geometry, input_gradient.shape(), weight.shape(), gradient.shape())};
  convolve(*this, "conv2d_input_gradient", product, weight, gradient, input_gradient);
}

void CudaBackend::conv2d_weight_gradient(const Conv2dGeometry& geometry, const Array& gradient, const Array& input,
                                         const Array& weight_gradient) {
  const ConvolutionCall call{
      "conv2d_weight_gradient", ConvolutionPass::weight_gradient, geometry, input, weight_gradient, gradient};
  if (convolved_by_library(call)) return;
  const cuda_kernels::WeightGradientProduct product{
      convolution_of(geometry, input.shape(), weight_gradient.shape(), gradient.shape())};
  convolve(*this, "conv2d_weight_gradient", product, gradient, input, weight_gradient);
}

}  // namespace tutti
