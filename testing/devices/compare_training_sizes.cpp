// SPDX-License-Identifier: Apache-2.0
// Differentiable operations at sizes at which devices take other kernels than for small arrays: several blocks of
// attention, rows of thousands, lengths that no vector divides; f32 and the short types, aligned and not. Then a
// transformer's block under autocast.
#include <tutti/testing/device_comparison.h>
#include <tutti/testing/devices/differentiable_function.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/transformer.h>

namespace tutti::testing {
namespace {

/// Heads of one packed tensor [batch, length, 3, heads, features], as views with strides.
Tensor packed_attention(const Tensors& x) {
  const Tensor heads = permute(x[0], {2, 0, 3, 1, 4});
  return scaled_dot_product_attention(heads[0], heads[1], heads[2], {.causal = true});
}

const DifferentiableFunction kSized[] = {
    {"attention, causal",
     {{2, 3, 300, 64}, {2, 3, 300, 64}, {2, 3, 300, 64}},
     [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.causal = true}); }},
    {"attention, packed", {{1, 259, 3, 2, 128}}, packed_attention},
    {"attention, all keys",
     {{2, 131, 40}, {2, 517, 40}, {2, 517, 24}},
     [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); }},
    {"softmax of long rows", {{33, 4099}}, [](const Tensors& x) { return softmax(x[0]); }},
    {"log_softmax of a middle axis", {{3, 1031, 5}}, [](const Tensors& x) { return log_softmax(x[0], 1); }},
    {"layer_norm of a width",
     {{130, 768}, {768}, {768}},
     [](const Tensors& x) { return layer_norm(x[0], {768}, x[1], x[2]); }},
    {"layer_norm of an odd width",
     {{67, 1023}, {1023}, {1023}},
     [](const Tensors& x) { return layer_norm(x[0], {1023}, x[1], x[2]); }},
    {"rms_norm of an odd width", {{67, 1025}, {1025}}, [](const Tensors& x) { return rms_norm(x[0], {1025}, x[1]); }},
    {"cross_entropy of many classes",
     {{70, 5003}},
     [](const Tensors& x) { return cross_entropy(x[0], places(x[0], {70}, 5003)); }},
    {"linear and gelu",
     {{300, 257}, {1023, 257}, {1023}},
     [](const Tensors& x) { return gelu(linear(x[0], x[1], x[2])); }},
    {"matmul of a batch", {{3, 129, 77}, {3, 77, 130}}, [](const Tensors& x) { return matmul(x[0], x[1]); }},
    {"embedding of repeated tokens",
     {{301, 65}},
     [](const Tensors& x) {
       return embedding(x[0], places(x[0], {7, 301}, 301));
     }},
    {"a * b + c of rows", {{513, 1027}, {1027}, {513, 1}}, [](const Tensors& x) { return x[0] * x[1] + x[2]; }},
    {"sum of columns", {{4099, 33}}, [](const Tensors& x) { return sum(x[0], {0}); }},
    {"dropout",
     {{130, 1027}},
     [](const Tensors& x) {
       Generator random(42);
       return dropout(x[0], 0.3, random);
     }},
    {"conv2d of channels",
     {{3, 16, 33, 31}, {24, 16, 3, 3}, {24}},
     [](const Tensors& x) {
       return conv2d(x[0], x[1], x[2], {.padding = {1, 0}});
     }},
};

/// The loss and all gradients of a block under autocast, told in the type that it computes in: its rounding is theirs.
Arrays autocast_step(Device device, DType dtype) {
  Generator random(44);
  TransformerBlock block(64, 4, random);
  block.detach_members_to(device);
  const Tensor x(numbers({3, 70, 64}, DType::f32, Numbers::plain, 45).to(device));
  Tensor loss;
  {
    const Autocast autocast(dtype);
    const Tensor logits = block(x).reshape({-1, 64});
    loss = cross_entropy(logits, places(x, {210}, 64));
  }
  backward(loss);
  Arrays found{loss.array().cast(dtype)};
  for (const Tensor& parameter : block.parameters()) found.push_back(parameter.grad().array().cast(dtype));
  return found;
}

}  // namespace

void compare_training_sizes(DeviceComparison& both) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    both.set_slack(dtype == DType::f32 ? 4 : 3);  // sums of thousands; short types round in several places
    for (const DifferentiableFunction& function : kSized) {
      const Arrays values = operands_of(function, dtype);
      for (const Layout layout : {Layout::contiguous, Layout::shifted})
        both.compare(
            function.name, values, [&](const Arrays& in) { return result_and_gradients(function, in); }, Match::largest,
            layout);
    }
    if (dtype == DType::f32) continue;
    both.compare(
        "a transformer's block under autocast", {numbers({1}, dtype, Numbers::plain, 47)},
        [=](const Arrays& in) { return autocast_step(in[0].device(), dtype); }, Match::largest);
  }
  both.set_slack(1);
}

}  // namespace tutti::testing
