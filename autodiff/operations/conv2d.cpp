// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/window_shapes.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

#include <utility>

namespace tutti {

// The forward and its two gradients are linear in each operand, and each one's gradients are the other two: x ~ weight
// ~ dy.

namespace {

Tensor input_gradient(const Conv2dGeometry&, const Tensor& dy, const Tensor& weight, const Shape& input);

Tensor weight_gradient(const Conv2dGeometry& geometry, const Tensor& dy, const Tensor& x, const Shape& weight);

/// Into the memory where it is welcome, if there is such.
void set_weight_gradient(InputGradients& gradients, const Conv2dGeometry& geometry, const Tensor& dy, const Tensor& x,
                         const Shape& weight) {
  if (const Array destination = gradients.destination(1); destination.defined() && destination.is_contiguous())
    gradients.set(1, Tensor(conv2d_weight_gradient(geometry, dy.array(), x.array(), weight, destination)));
  else
    gradients.set(1, weight_gradient(geometry, dy, x, weight));
}

Tensor forward(const Conv2dGeometry& geometry, const Tensor& x, const Tensor& weight) {
  const Tensor inputs[] = {x, weight};
  return record("conv2d", conv2d(geometry, x.array(), weight.array()), inputs, [&] {
    return [geometry, saved_x = save(x, 0), saved_w = save(weight, 1)](const auto& restore, const Tensor& dy,
                                                                       InputGradients& gradients) {
      if (gradients.wanted(0)) gradients.set(0, input_gradient(geometry, dy, restore(saved_w), saved_x.value.shape()));
      if (gradients.wanted(1)) set_weight_gradient(gradients, geometry, dy, restore(saved_x), saved_w.value.shape());
    };
  });
}

Tensor input_gradient(const Conv2dGeometry& geometry, const Tensor& dy, const Tensor& weight, const Shape& input) {
  const Tensor inputs[] = {dy, weight};
  return record("conv2d_input_gradient", conv2d_input_gradient(geometry, dy.array(), weight.array(), input), inputs,
                [&] {
                  return [geometry, saved_dy = save(dy, 0), saved_w = save(weight, 1)](
                             const auto& restore, const Tensor& ddx, InputGradients& gradients) {
                    if (gradients.wanted(0)) gradients.set(0, forward(geometry, ddx, restore(saved_w)));
                    if (gradients.wanted(1))
                      set_weight_gradient(gradients, geometry, restore(saved_dy), ddx, saved_w.value.shape());
                  };
                });
}

Tensor weight_gradient(const Conv2dGeometry& geometry, const Tensor& dy, const Tensor& x, const Shape& weight) {
  const Tensor inputs[] = {dy, x};
  return record("conv2d_weight_gradient", conv2d_weight_gradient(geometry, dy.array(), x.array(), weight), inputs, [&] {
    return [geometry, saved_dy = save(dy, 0), saved_x = save(x, 1)](const auto& restore, const Tensor& ddw,
                                                                    InputGradients& gradients) {
      if (gradients.wanted(0)) gradients.set(0, forward(geometry, restore(saved_x), ddw));
      if (gradients.wanted(1))
        gradients.set(1, input_gradient(geometry, restore(saved_dy), ddw, saved_x.value.shape()));
    };
  });
}

}  // namespace

Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Conv2dGeometry& geometry) {
  const OperationScope scope("conv2d", input, weight, bias);
  const Tensor y = forward(geometry, autocast("conv2d", input), autocast("conv2d", weight));
  if (!bias.defined()) return y;
  if (bias.rank() != 1 || bias.length(0) != weight.length(0))
    raise<ShapeError>("[conv2d] bias {} does not fit weight {}", to_string(bias.shape()), to_string(weight.shape()));
  return y + reshape(autocast("conv2d", bias), {-1, 1, 1});
}

Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dGeometry& given) {
  constexpr std::string_view kName = "conv_transpose2d";
  const OperationScope scope(kName, input, weight, bias);
  const Shape output = transposed_convolution_shape(kName, axes_of(given), input.shape(), weight.shape());
  if (bias.defined()) check_bias_shape(kName, bias.shape(), output[1]);
  const Conv2dGeometry geometry{given.stride, given.padding, given.dilation, given.groups};
  // Where output_padding is as long as a stride, conv2d of the output makes more than the input: zeros here.
  const Shape read = conv2d_shape(kName, geometry, output, weight.shape());
  const Tensor x = autocast(kName, input);
  const Padding rows{0, read[2] - input.length(2)};
  const Padding columns{0, read[3] - input.length(3)};
  const Tensor images = rows.after + columns.after == 0 ? x : pad(x, {{}, {}, rows, columns});
  const Tensor y = input_gradient(geometry, images, autocast(kName, weight), output);
  return bias.defined() ? y + reshape(autocast(kName, bias), {-1, 1, 1}) : y;
}

}  // namespace tutti
