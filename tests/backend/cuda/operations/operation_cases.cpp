// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/backend/cuda/operations/operation_cases.h>

#include <tutti/backend/backend.h>
#include <tutti/backend/custom_kernel.h>
#include <tutti/backend/linear_algebra/linear_algebra.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/random.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/backend/cuda/scale_kernel.h>

namespace tutti::testing {

Array floats(const Shape& shape) { return Array::empty(shape, DType::f32, kCaseDevice); }
Array index_zeros(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t length : shape) count *= length;
  return Array::from(std::vector<std::int64_t>(static_cast<std::size_t>(count), 0), shape, kCaseDevice);
}

namespace {

Array halves(const Shape& shape) { return Array::empty(shape, DType::bf16, kCaseDevice); }

const std::vector<OperationCase>& elementwise_cases() {
  static const std::vector<OperationCase> cases{
      {"fill",
       [] {
         Array::full({3, 5}, 2, DType::i64, kCaseDevice);
       }},
      {"arange", [] { Array::arange(1000, DType::f32, kCaseDevice, 3, 2); }},
      {"zeros", [] { Array::zeros({1000}, DType::f32, kCaseDevice); }},
      {"copy",
       [] {
         floats({3, 5, 7}).permute({2, 0, 1}).contiguous();
       }},
      {"transpose",
       [] {
         floats({100, 70}).transpose().contiguous();
       }},
      {"cast", [] { floats({10}).cast(DType::i32); }},
      {"unary",
       [] {
         apply(elementwise::Gelu{}, floats({3, 1001}));
       }},
      {"binary",
       [] {
         apply(elementwise::Add{}, floats({3, 1, 5}), floats({4, 5}));
       }},
      {"where",
       [] {
         where(Array::empty({5}, DType::boolean, kCaseDevice), floats({3, 5}), floats({1}));
       }},
      {"dropout",
       [] {
         Generator random(7);
         const auto [value, kept] = dropout(floats({5, 7}), 0.5, 2, random);
         dropout_gradient(kept, 2, value);
       }},
      {"scatter_add of rows",
       [] {
         scatter_add({9, 9}, floats({70, 9}), 0, Array::zeros({70, 1}, DType::i64, kCaseDevice).broadcast_to({70, 9}));
       }},
      {"random", [] { Generator(7).normal({33}, DType::f64, kCaseDevice); }},
      {"optimizer_step",
       [] {
         const std::vector<RuleOperands> many(
             200, {floats({9}), floats({18}).slice(0, 0, 18, 2), {floats({9}), floats({9}), Array()}});
         backend_for(kCaseDevice).optimizer_step(AdamStep{.rate = 0.1}, many);
       }},
      {"custom",
       [] {
         static const CustomKernel& kernel = *new CustomKernel(
             "scale", {.cuda = [](const CustomCall& call, void* stream) {
               const Array from = call.inputs[0].contiguous();  // gone before the kernel has run
               launch_scale(static_cast<cudaStream_t>(stream), from.data<float>(), call.outputs[0].data<float>(),
                            static_cast<float>(call.parameters[0]), static_cast<int>(from.size()));
             }});
         const Array x = floats({9, 5}).transpose();
         run_kernel(kernel.with({3}), {&x, 1}, x.shape(), x.dtype());
       }},
  };
  return cases;
}

const std::vector<OperationCase>& structured_cases() {
  static const std::vector<OperationCase> cases{
      {"sum",
       [] {
         sum(floats({100, 1000}));
       }},
      {"sum of rows",
       [] {
         reduce(Reduction::sum, floats({100, 1000}), std::vector<std::int64_t>{1});
       }},
      {"max of columns",
       [] {
         reduce(Reduction::max, floats({100, 1000}), std::vector<std::int64_t>{0});
       }},
      {"arg_reduce",
       [] {
         arg_reduce(ArgReduction::arg_max, floats({10, 20}), 1);
       }},
      {"matmul",
       [] {
         matmul(floats({3, 4}), floats({4, 5}));
       }},
      {"batched matmul",
       [] {
         matmul(floats({2, 6, 3, 4}), floats({6, 5, 4}).transpose());
       }},
      {"linear",
       [] {
         linear(floats({3, 4}), floats({5, 4}), floats({5}), LinearActivation::relu);
       }},
      {"linear with an activation that is not the product's",
       [] {
         linear(floats({3, 4}), floats({5, 4}), floats({5}), LinearActivation::gelu);
       }},
      {"softmax",
       [] {
         softmax(SoftmaxKind::log_softmax, floats({10, 20}), 1);
       }},
      {"softmax_gradient",
       [] {
         softmax_gradient(SoftmaxKind::softmax, floats({10, 20}), floats({10, 20}), 0);
       }},
      {"gather",
       [] {
         gather(floats({10, 20}), 1, index_zeros({10, 3}));
       }},
      {"scatter_add",
       [] {
         scatter_add({10, 20}, floats({10, 3}), 1, index_zeros({10, 3}));
       }},
      {"long scatter_add", [] { scatter_add({100000}, floats({50000}), 0, index_zeros({50000})); }},
      {"scatter",
       [] {
         scatter(Scatter::max, floats({10, 20}), 1, index_zeros({10, 3}), floats({10, 3}));
       }},
      {"long scatter", [] { scatter(Scatter::set, floats({100000}), 0, index_zeros({50000}), floats({50000})); }},
      {"conv2d",
       [] {
         conv2d({}, floats({2, 3, 8, 8}), floats({4, 3, 3, 3}));
       }},
      {"depthwise conv2d",
       [] {
         conv2d({.groups = 3}, floats({2, 3, 8, 8}), floats({3, 1, 3, 3}));
       }},
      {"conv2d_input_gradient",
       [] {
         conv2d_input_gradient({}, floats({2, 4, 6, 6}), floats({4, 3, 3, 3}), {2, 3, 8, 8});
       }},
      {"conv2d_weight_gradient",
       [] {
         conv2d_weight_gradient({}, floats({2, 4, 6, 6}), floats({2, 3, 8, 8}), {4, 3, 3, 3});
       }},
      {"max_pool2d",
       [] {
         max_pool2d({}, floats({2, 3, 8, 8}));
       }},
      {"max_pool2d_gradient",
       [] {
         max_pool2d_gradient({}, floats({2, 3, 4, 4}), index_zeros({2, 3, 4, 4}), {2, 3, 8, 8});
       }},
      {"avg_pool2d",
       [] {
         avg_pool2d({}, floats({2, 3, 8, 8}));
       }},
      {"avg_pool2d_gradient",
       [] {
         avg_pool2d_gradient({}, floats({2, 3, 4, 4}), {2, 3, 8, 8});
       }},
  };
  return cases;
}

/// Widened, computed and narrowed.
const std::vector<OperationCase>& narrow_cases() {
  static const std::vector<OperationCase> cases{
      {"bf16 fill and where",
       [] {
         where(Array::empty({5}, DType::boolean, kCaseDevice), halves({3, 5}),
               Array::full({}, 1, DType::bf16, kCaseDevice));
       }},
      {"bf16 transpose",
       [] {
         halves({100, 70}).transpose().contiguous();
       }},
      {"f16 to i8", [] { Array::empty({10}, DType::f16, kCaseDevice).cast(DType::i8); }},
      {"bf16 add",
       [] {
         apply(elementwise::Add{}, halves({3, 1, 5}), halves({4, 5}));
       }},
      {"u8 less",
       [] {
         const Array x = Array::empty({33}, DType::u8, kCaseDevice);
         apply(elementwise::Less{}, x, x);
       }},
      {"bf16 sum",
       [] {
         sum(halves({100, 10}));
       }},
      {"bf16 matmul",
       [] {
         matmul(halves({3, 4}), halves({4, 5}));
       }},
      {"bf16 gather",
       [] {
         gather(halves({10, 20}), 1, index_zeros({10, 3}));
       }},
      {"bf16 scatter_add in place",
       [] {
         backend_for(kCaseDevice).scatter(Scatter::add, halves({10, 3}), 1, index_zeros({10, 3}), halves({10, 20}));
       }},
  };
  return cases;
}

const std::vector<OperationCase>& library_cases() {
  static const std::vector<OperationCase> cases{
      {"factorizations",
       [] {
         for (const auto kind : {Factorization::cholesky, Factorization::qr, Factorization::svd, Factorization::eigh})
           factorize(kind, floats({3, 3}));
       }},
      {"batched solve",
       [] {
         solve(floats({2, 3, 3}), floats({2, 3, 5}));
       }},
      {"fourier",
       [] {
         fourier({FourierTransform::Kind::complex, true, 20}, floats({3, 20, 2}));
       }},
      {"fourier to real numbers",
       [] {
         fourier({FourierTransform::Kind::complex_to_real, true, 20}, floats({3, 11, 2}));
       }},
  };
  return cases;
}

}  // namespace

std::vector<OperationCase> operations_for_graphs() {
  std::vector<OperationCase> all = elementwise_cases();
  all.insert(all.end(), structured_cases().begin(), structured_cases().end());
  all.insert(all.end(), narrow_cases().begin(), narrow_cases().end());
  return all;
}

std::vector<OperationCase> all_operations() {
  std::vector<OperationCase> all = operations_for_graphs();
  all.insert(all.end(), library_cases().begin(), library_cases().end());
  return all;
}

}  // namespace tutti::testing
