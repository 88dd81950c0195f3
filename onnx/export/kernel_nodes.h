// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/custom_kernel.h>
#include <tutti/backend/kernel.h>
#include <tutti/onnx/export/traced_graph.h>
#include <tutti/onnx/export/traced_memory.h>

#include <cstddef>
#include <span>
#include <string_view>

namespace tutti::onnx {

/// Adds the operators that do what kernels do (backend/kernel_list.h), each with the kernel's arguments. Those of a
/// gradient, of an optimizer, of random numbers, and what ONNX has no operators for, throw Error.
class KernelNodes {
 public:
  KernelNodes(TracedGraph& graph, TracedMemory& memory) : graph_(graph), memory_(memory) {}

  template <class Kernel, class... Arguments> void add(Kernel, const Arguments&...) { refuse(Kernel::name); }

  void add(kernel::copy, const Array& from, const Array& to);
  void add(kernel::cast, const Array& from, const Array& to);
  void add(kernel::fill, const Array& to, const Scalar& value);
  void add(kernel::arange, const Array& to, std::int64_t first, std::int64_t step);
  void add(kernel::elementwise, const ElementwiseCall&, std::span<const Array> inputs, const Array& output);
  void add(kernel::where, const Array& mask, const Array& a, const Array& b, const Array& output);
  void add(kernel::reduce, Reduction, const Array& input, const Array& output);
  void add(kernel::arg_reduce, ArgReduction, const Array& input, std::size_t axis, const Array& output);
  void add(kernel::cumsum, const Array& input, std::size_t axis, bool reverse, const Array& output);
  void add(kernel::arg_sort, const Array& input, std::size_t axis, bool descending, const Array& output);
  void add(kernel::matmul, const Array& lhs, const Array& rhs, const Array& output);
  void add(kernel::linear, const Array& input, const Array& weight, const Array& bias, LinearActivation,
           const Array& output);
  void add(kernel::softmax, SoftmaxKind, const Array& input, std::size_t axis, const Array& output);
  void add(kernel::normalize_rows, const RowNorm&, const Array& input, const Array& weight, const Array& bias,
           const Array& output, const Array& mean, const Array& scale);
  void add(kernel::gather, const Array& input, std::size_t axis, const Array& index, const Array& output);
  void add(kernel::scatter, Scatter, const Array& updates, std::size_t axis, const Array& index, const Array& output);
  void add(kernel::conv2d, const Conv2dGeometry&, const Array& input, const Array& weight, const Array& output);
  void add(kernel::conv2d_input_gradient, const Conv2dGeometry&, const Array& gradient, const Array& weight,
           const Array& input_gradient);
  void add(kernel::max_pool2d, const Pool2dGeometry&, const Array& input, const Array& output, const Array& index);
  void add(kernel::avg_pool2d, const AvgPool2dGeometry&, const Array& input, const Array& output);
  void add(kernel::custom, const CustomKernel&, std::span<const Array> inputs, std::span<const Array> outputs);

 private:
  [[noreturn]] static void refuse(std::string_view kernel);
  void result(const Array& output, ValueId);
  ValueId root_mean_square(const RowNorm&, ValueId x, ValueId weight);

  TracedGraph& graph_;
  TracedMemory& memory_;
};

}  // namespace tutti::onnx
