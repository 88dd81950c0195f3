// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/convolution/convolution_kernels.h>

namespace tutti {

void CpuBackend::conv2d(const Conv2dGeometry& geometry, const Array& input, const Array& weight, const Array& output) {
  stream(output.device())
      .launch(
          "conv2d",
          [geometry, this](const Array& x, const Array& w, const Array& y) {
            const ConvolutionPlan plan({geometry, x.shape(), w.shape(), y.shape()}, x.device(), pool(x.device()),
                                       threads(x.device()));
            visit_any_floating(y.dtype(), [&]<class S>(std::type_identity<S>) {
              const auto convolve = plan.is_direct() ? TapConvolution<S>::forward : ProductConvolution<S>::forward;
              convolve(plan, x.data<S>(), w.data<S>(), y.data<S>());
            });
          },
          input, weight, output);
}

void CpuBackend::conv2d_input_gradient(const Conv2dGeometry& geometry, const Array& gradient, const Array& weight,
                                       const Array& input_gradient) {
  stream(gradient.device())
      .launch(
          "conv2d_input_gradient",
          [geometry, this](const Array& dy, const Array& w, const Array& dx) {
            const ConvolutionPlan plan({geometry, dx.shape(), w.shape(), dy.shape()}, dx.device(), pool(dx.device()),
                                       threads(dx.device()));
            visit_any_floating(dx.dtype(), [&]<class S>(std::type_identity<S>) {
              const auto convolve =
                  plan.is_direct() ? TapConvolution<S>::input_gradient : ProductConvolution<S>::input_gradient;
              convolve(plan, dy.data<S>(), w.data<S>(), dx.data<S>());
            });
          },
          gradient, weight, input_gradient);
}

void CpuBackend::conv2d_weight_gradient(const Conv2dGeometry& geometry, const Array& gradient, const Array& input,
                                        const Array& weight_gradient) {
  stream(gradient.device())
      .launch(
          "conv2d_weight_gradient",
          [geometry, this](const Array& dy, const Array& x, const Array& dw) {
            const ConvolutionPlan plan({geometry, x.shape(), dw.shape(), dy.shape()}, x.device(), pool(x.device()),
                                       threads(x.device()));
            visit_any_floating(dw.dtype(), [&]<class S>(std::type_identity<S>) {
              const auto convolve =
                  plan.is_direct() ? TapConvolution<S>::weight_gradient : ProductConvolution<S>::weight_gradient;
              convolve(plan, dy.data<S>(), x.data<S>(), dw.data<S>());
            });
          },
          gradient, input, weight_gradient);
}

}  // namespace tutti
