// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/convolution/convolution_kernels.h>
#include <tutti/backend/cpu/convolution/direct_convolution.h>
#include <tutti/backend/cpu/packs/wide_copies.h>

#include <algorithm>

namespace tutti {
namespace {

/// Calls `f(direct, i)` for all i < count, each of which takes `work` multiplications.
template <class T, class F>
void for_each_direct(const ConvolutionPlan& c, std::int64_t count, std::int64_t work, F&& f) {
  constexpr std::int64_t kGrain = 65536;  // multiplications
  c.threads.parallel_for(count, std::max<std::int64_t>(1, kGrain / work), [&](std::int64_t begin, std::int64_t end) {
    DirectConvolution<T> direct(c.group, c.device, c.pool);
    for (std::int64_t i = begin; i < end; ++i) f(direct, i);
  });
}

}  // namespace

/// Groups of channels follow each other in images as images do. Elements of 16 bits are widened for all.
template <class S>
void TapConvolution<S>::forward(const ConvolutionPlan& c, const S* input, const S* weight, S* output) {
  using T = ComputedIn<S>;
  const std::int64_t groups = c.size.geometry.groups;
  const WideOperand<S> x(c.device, c.pool, c.threads, input, c.size.images * c.size.image_size());
  const WideOperand<S> w(c.device, c.pool, c.threads, weight, groups * c.weights_of_group());
  const WideResult<S> y(c.device, c.pool, output, c.size.images * c.size.output_size());
  for_each_direct<T>(c, c.size.images * groups, c.work_of_group(), [&](DirectConvolution<T>& direct, std::int64_t i) {
    direct.forward(x.data() + i * c.group.image_size(), w.data() + i % groups * c.weights_of_group(),
                   y.data() + i * c.group.output_size());
    y.write(i * c.group.output_size(), (i + 1) * c.group.output_size());
  });
}

template <class S>
void TapConvolution<S>::input_gradient(const ConvolutionPlan& c, const S* gradient, const S* weight, S* to) {
  using T = ComputedIn<S>;
  const std::int64_t groups = c.size.geometry.groups;
  const WideOperand<S> dy(c.device, c.pool, c.threads, gradient, c.size.images * c.size.output_size());
  const WideOperand<S> w(c.device, c.pool, c.threads, weight, groups * c.weights_of_group());
  const WideResult<S> dx(c.device, c.pool, to, c.size.images * c.size.image_size());
  for_each_direct<T>(c, c.size.images * groups, c.work_of_group(), [&](DirectConvolution<T>& direct, std::int64_t i) {
    direct.input_gradient(dy.data() + i * c.group.output_size(), w.data() + i % groups * c.weights_of_group(),
                          dx.data() + i * c.group.image_size());
    dx.write(i * c.group.image_size(), (i + 1) * c.group.image_size());
  });
}

/// Over the images in order.
template <class S>
void TapConvolution<S>::weight_gradient(const ConvolutionPlan& c, const S* gradient, const S* input, S* to) {
  using T = ComputedIn<S>;
  const std::int64_t groups = c.size.geometry.groups;
  const std::int64_t work = c.size.images * c.work_of_group();
  const WideOperand<S> dy(c.device, c.pool, c.threads, gradient, c.size.images * c.size.output_size());
  const WideOperand<S> x(c.device, c.pool, c.threads, input, c.size.images * c.size.image_size());
  const WideResult<S> dw(c.device, c.pool, to, groups * c.weights_of_group());
  for_each_direct<T>(c, groups, work, [&](DirectConvolution<T>& direct, std::int64_t g) {
    T* const weight = dw.data() + g * c.weights_of_group();
    std::fill_n(weight, c.weights_of_group(), T(0));
    for (std::int64_t i = g; i < c.size.images * groups; i += groups)
      direct.weight_gradient(dy.data() + i * c.group.output_size(), x.data() + i * c.group.image_size(), weight);
    dw.write(g * c.weights_of_group(), (g + 1) * c.weights_of_group());
  });
}

template struct TapConvolution<float>;
template struct TapConvolution<double>;
template struct TapConvolution<BFloat16>;
template struct TapConvolution<Float16>;

}  // namespace tutti
