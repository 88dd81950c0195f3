// SPDX-License-Identifier: Apache-2.0
// Differentiable operations: the result, and the gradient of each operand for one upstream gradient.
#include <tutti/testing/device_comparison.h>
#include <tutti/testing/devices/differentiable_function.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/sgd.h>

#include <memory>

namespace tutti::testing {
namespace {

const DifferentiableFunction kFunctions[] = {
    {"a + b", {{4, 1, 5}, {3, 1}}, [](const Tensors& x) { return x[0] + x[1]; }},
    {"a * b", {{4, 5}, {5}}, [](const Tensors& x) { return x[0] * x[1]; }},
    {"a / (b * b + 1)", {{4, 5}, {4, 1}}, [](const Tensors& x) { return x[0] / (x[1] * x[1] + 1.0); }},
    {"maximum", {{4, 5}, {5}}, [](const Tensors& x) { return maximum(x[0], x[1]); }},
    {"cast", {{3, 7}}, [](const Tensors& x) { return cast(x[0], DType::f64); }},
    {"where", {{4, 5}, {5}}, [](const Tensors& x) { return where(x[0] > x[1], x[0], x[1]); }},
    {"reshape",
     {{4, 6}},
     [](const Tensors& x) {
       return reshape(transpose(x[0]), {3, 8});
     }},
    {"permute",
     {{2, 3, 4}},
     [](const Tensors& x) {
       return permute(x[0], {2, 0, 1});
     }},
    {"broadcast_to",
     {{3, 1}},
     [](const Tensors& x) {
       return broadcast_to(x[0], {2, 3, 5});
     }},
    {"sum_to",
     {{2, 3, 5}},
     [](const Tensors& x) {
       return sum_to(x[0], {3, 1});
     }},
    {"slice", {{5, 6}}, [](const Tensors& x) { return slice(x[0], 1, 1, 4); }},
    {"concatenate", {{2, 3}, {2, 4}}, [](const Tensors& x) { return concatenate(x, 1); }},
    {"sum",
     {{3, 4, 5}},
     [](const Tensors& x) {
       return sum(x[0], {0, 2});
     }},
    {"mean", {{3, 4, 5}}, [](const Tensors& x) { return mean(x[0], {1}, true); }},
    {"max", {{3, 4, 5}}, [](const Tensors& x) { return max(x[0], 1); }},
    {"matmul", {{2, 3, 4}, {4, 5}}, [](const Tensors& x) { return matmul(x[0], x[1]); }},
    {"linear", {{6, 4}, {5, 4}, {5}}, [](const Tensors& x) { return linear(x[0], x[1], x[2]); }},
    {"conv2d", {{2, 3, 6, 6}, {4, 3, 3, 3}, {4}}, [](const Tensors& x) { return conv2d(x[0], x[1], x[2]); }},
    {"max_pool2d", {{2, 3, 6, 6}}, [](const Tensors& x) { return max_pool2d(x[0]); }},
    {"conv1d",
     {{2, 4, 9}, {6, 2, 3}, {6}},
     [](const Tensors& x) { return conv1d(x[0], x[1], x[2], {.padding = 1, .groups = 2}); }},
    {"conv_transpose2d",
     {{2, 4, 5, 5}, {4, 3, 3, 3}, {6}},
     [](const Tensors& x) {
       return conv_transpose2d(x[0], x[1], x[2],
                               {.stride = {2, 1}, .padding = {1, 1}, .output_padding = {1, 0}, .groups = 2});
     }},
    {"conv3d",
     {{2, 2, 4, 5, 5}, {4, 2, 3, 3, 3}, {4}},
     [](const Tensors& x) {
       return conv3d(x[0], x[1], x[2], {.padding = {1, 1, 1}});
     }},
    {"interpolate",
     {{2, 3, 5, 4}},
     [](const Tensors& x) {
       return interpolate(x[0], {.size = {7, 9}, .mode = Interpolation::cubic});
     }},
    {"grid_sample", {{2, 3, 5, 4}, {2, 3, 3, 2}}, [](const Tensors& x) { return grid_sample(x[0], x[1]); }},
    {"avg_pool2d", {{2, 3, 6, 6}}, [](const Tensors& x) { return avg_pool2d(x[0]); }},
    {"softmax", {{3, 7}}, [](const Tensors& x) { return softmax(x[0]); }},
    {"log_softmax", {{3, 7, 2}}, [](const Tensors& x) { return log_softmax(x[0], 1); }},
    {"layer_norm", {{6, 5}, {5}, {5}}, [](const Tensors& x) { return layer_norm(x[0], {5}, x[1], x[2]); }},
    {"rms_norm", {{6, 5}, {5}}, [](const Tensors& x) { return rms_norm(x[0], {5}, x[1]); }},
    {"group_norm", {{2, 4, 3}, {4}, {4}}, [](const Tensors& x) { return group_norm(x[0], 2, x[1], x[2]); }},
    {"batch_norm",
     {{4, 3, 2}, {3}, {3}},
     [](const Tensors& x) { return batch_norm(x[0], {}, {}, x[1], x[2], {.training = true}); }},
    {"scaled_dot_product_attention",
     {{2, 5, 4}, {2, 6, 4}, {2, 6, 3}},
     [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.causal = true, .block = 4}); }},
    {"rotary_embedding", {{2, 3, 4}}, [](const Tensors& x) { return rotary_embedding(x[0]); }},
    {"gather",
     {{3, 7}},
     [](const Tensors& x) {
       return gather(x[0], 1, places(x[0], {3, 4}, 7));
     }},
    {"embedding",
     {{9, 4}},
     [](const Tensors& x) {
       return embedding(x[0], places(x[0], {2, 5}, 9));
     }},
    {"scatter_add",
     {{3, 4}},
     [](const Tensors& x) {
       return scatter_add({3, 7}, x[0], 1, places(x[0], {3, 4}, 7));
     }},
    {"cross_entropy", {{6, 5}}, [](const Tensors& x) { return cross_entropy(x[0], places(x[0], {6}, 5)); }},
};

Arrays trained(Device device, bool adam) {
  Generator random(33);
  Sequential model(Linear(6, 16, random), Tanh(), Linear(16, 4, random));
  model.detach_members_to(device);
  const Tensor x(numbers({12, 6}, DType::f32, Numbers::plain, 34).to(device));
  const Tensor y(indices({12}, 4, 35).to(device));
  std::unique_ptr<Optimizer> optimizer = std::make_unique<Sgd>(model.parameters(), 0.1, SgdOptions{.momentum = 0.9});
  if (adam) optimizer = std::make_unique<AdamW>(model.parameters(), 0.01);
  for (int step = 0; step < 5; ++step) {
    optimizer->zero_grad();
    backward(cross_entropy(model.forward(x), y));
    optimizer->step();
  }
  Arrays parameters;
  for (const Tensor& parameter : model.parameters()) parameters.push_back(parameter.array());
  return parameters;
}

}  // namespace

void compare_autodiff(DeviceComparison& both) {
  for (const DifferentiableFunction& function : kFunctions) {
    both.compare(
        function.name, operands_of(function, DType::f32),
        [&](const Arrays& in) { return result_and_gradients(function, in); }, Match::largest);
  }
  for (const bool adam : {false, true})
    both.compare(
        adam ? "five steps of AdamW" : "five steps of SGD", {numbers({1}, DType::f32, Numbers::plain, 30)},
        [&](const Arrays& in) { return trained(in[0].device(), adam); }, Match::largest);
}

}  // namespace tutti::testing
