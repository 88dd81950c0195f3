// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/export/kernel_nodes.h>

#include <tutti/backend/raise.h>
#include <tutti/onnx/export/elementwise_nodes.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace tutti::onnx {

namespace {

std::int64_t signed_axis(std::size_t axis) { return static_cast<std::int64_t>(axis); }

Attribute axis_attribute(std::size_t axis) { return integer_attribute("axis", signed_axis(axis)); }

template <class Numbers> std::vector<std::int64_t> as_vector(const Numbers& numbers) {
  return {numbers.begin(), numbers.end()};
}
/// Of both axes: before each, then behind each.
template <class Numbers> std::vector<std::int64_t> both_sides(const Numbers& numbers) {
  return {numbers[0], numbers[1], numbers[0], numbers[1]};
}

template <class Geometry> std::vector<Attribute> convolution_attributes(const Geometry& geometry, const Shape& weight) {
  return {integers_attribute("kernel_shape", {weight[2], weight[3]}),
          integers_attribute("strides", as_vector(geometry.stride)),
          integers_attribute("pads", both_sides(geometry.padding)),
          integers_attribute("dilations", as_vector(geometry.dilation)), integer_attribute("group", geometry.groups)};
}

template <class Geometry> std::vector<Attribute> pooling_attributes(const Geometry& geometry) {
  return {integers_attribute("kernel_shape", as_vector(geometry.kernel)),
          integers_attribute("strides", as_vector(geometry.stride)),
          integers_attribute("pads", both_sides(geometry.padding))};
}

/// True if the index selects whole rows of the input: it is the same along all axes but one.
bool selects_rows(const Shape& input, std::size_t axis, const Array& index) {
  for (std::size_t other = 0; other < index.rank(); ++other) {
    if (other == axis) continue;
    const bool repeats = index.strides()[other] == 0 || index.shape()[other] == 1;
    if (!repeats || index.shape()[other] != input[other]) return false;
  }
  return true;
}

}  // namespace

void KernelNodes::refuse(std::string_view kernel) {
  if (kernel.ends_with("_gradient") || kernel == "normalize_rows_sums")
    raise("[save_onnx] the model computes a gradient while it runs ({}): a file has none", kernel);
  if (kernel == "random" || kernel == "dropout")
    raise("[save_onnx] the model draws random numbers while it runs: call eval() before");
  if (kernel == "optimizer_step") raise("[save_onnx] an optimizer steps while the model runs");
  raise("[save_onnx] the model calls {}, which has no operator in ONNX", kernel);
}

// The value may lack axes of length 1, which broadcasting leaves out.
void KernelNodes::result(const Array& output, ValueId value) {
  if (!output.defined()) return;
  const Shape broadcast = broadcast_shapes("save_onnx", graph_.shape(value), output.shape());
  if (graph_.shape(value) != broadcast)
    value = element_count(graph_.shape(value)) == output.size() ? graph_.reshape(value, output.shape())
                                                                : graph_.expand(value, output.shape());
  memory_.write(output, value);
}

void KernelNodes::add(kernel::copy, const Array& from, const Array& to) { memory_.write(to, memory_.read(from)); }

void KernelNodes::add(kernel::cast, const Array& from, const Array& to) {
  result(to, graph_.cast(memory_.read_to_broadcast(from), to.dtype()));
}

void KernelNodes::add(kernel::fill, const Array& to, const Scalar& value) {
  memory_.fill(to, Array::full({}, value, to.dtype(), cpu()));
}

void KernelNodes::add(kernel::arange, const Array& to, std::int64_t first, std::int64_t step) {
  const ValueId value =
      graph_.add("Range", {scalar_number(first), scalar_number(first + step * to.size()), scalar_number(step)},
                 DType::i64, to.shape());
  memory_.write(to, graph_.cast(value, to.dtype()));
}

void KernelNodes::add(kernel::elementwise, const ElementwiseCall& call, std::span<const Array> inputs,
                      const Array& output) {
  std::vector<ValueId> values;
  for (const Array& input : inputs) values.push_back(memory_.read_to_broadcast(input));
  result(output, add_elementwise(graph_, call, values));
}

void KernelNodes::add(kernel::where, const Array& mask, const Array& a, const Array& b, const Array& output) {
  const std::vector<ValueId> values{memory_.read_to_broadcast(mask), memory_.read_to_broadcast(a),
                                    memory_.read_to_broadcast(b)};
  Shape shape = graph_.shape(values[0]);
  for (const ValueId each : values) shape = broadcast_shapes("where", shape, graph_.shape(each));
  result(output, graph_.add("Where", {values.begin(), values.end()}, output.dtype(), shape));
}

void KernelNodes::add(kernel::reduce, Reduction kind, const Array& input, const Array& output) {
  constexpr std::string_view kOperators[] = {"ReduceSum", "ReduceSumSquare", "ReduceMax", "ReduceMin", "ReduceProd"};
  std::vector<std::int64_t> axes;
  for (std::size_t axis = 0; axis < input.rank(); ++axis)
    if (output.shape()[axis] != input.shape()[axis]) axes.push_back(signed_axis(axis));
  const ValueId x = memory_.read(input);
  if (axes.empty()) {  // along axes of one element
    result(output, kind == Reduction::sum_of_squares ? graph_.broadcast("Mul", {x, x}) : x);
    return;
  }
  result(output, graph_.add(std::string(kOperators[static_cast<std::size_t>(kind)]), {x, numbers(axes)}, input.dtype(),
                            output.shape(), {integer_attribute("keepdims", 1)}));
}

void KernelNodes::add(kernel::arg_reduce, ArgReduction kind, const Array& input, std::size_t axis,
                      const Array& output) {
  result(output, graph_.add(kind == ArgReduction::arg_max ? "ArgMax" : "ArgMin", {memory_.read(input)}, DType::i64,
                            output.shape(), {axis_attribute(axis), integer_attribute("keepdims", 1)}));
}

void KernelNodes::add(kernel::cumsum, const Array& input, std::size_t axis, bool reverse, const Array& output) {
  result(output, graph_.add("CumSum", {memory_.read(input), scalar_number(signed_axis(axis))}, input.dtype(),
                            input.shape(), {integer_attribute("reverse", reverse ? 1 : 0)}));
}

void KernelNodes::add(kernel::arg_sort, const Array& input, std::size_t axis, bool descending, const Array& output) {
  const std::vector<TracedGraph::Value> sorted{{input.dtype(), input.shape()}, {DType::i64, output.shape()}};
  const ValueId values = graph_.add("TopK", {memory_.read(input), numbers(input.shape()[axis])}, sorted,
                                    {axis_attribute(axis), integer_attribute("largest", descending ? 1 : 0)});
  result(output, values + 1);
}

// Operands may lack axes that both repeat: the product has them again.
void KernelNodes::add(kernel::matmul, const Array& lhs, const Array& rhs, const Array& output) {
  const ValueId a = memory_.read_to_broadcast(lhs, 2);
  const ValueId b = memory_.read_to_broadcast(rhs, 2);
  Shape shape = broadcast_shapes("matmul", batch_of(graph_.shape(a)), batch_of(graph_.shape(b)));
  for (const std::int64_t axis : {-2, -1}) shape.push_back(output.length(axis));
  result(output, graph_.add("MatMul", {a, b}, output.dtype(), shape));
}

void KernelNodes::add(kernel::linear, const Array& input, const Array& weight, const Array& bias,
                      LinearActivation activation, const Array& output) {
  // Weights lie transposed in memory, as Gemm takes them.
  const bool transposed = weight.transpose().is_contiguous() && !weight.is_contiguous();
  std::vector<Operand> operands{memory_.read(input), memory_.read(transposed ? weight.transpose() : weight)};
  if (bias.defined()) operands.emplace_back(memory_.read(bias));
  ValueId y = graph_.add("Gemm", std::move(operands), output.dtype(), output.shape(),
                         {integer_attribute("transB", transposed ? 1 : 0)});
  if (activation == LinearActivation::relu) y = graph_.like("Relu", {y});
  if (activation == LinearActivation::gelu) y = graph_.like("Gelu", {y});
  result(output, y);
}

void KernelNodes::add(kernel::softmax, SoftmaxKind kind, const Array& input, std::size_t axis, const Array& output) {
  result(output, graph_.add(kind == SoftmaxKind::softmax ? "Softmax" : "LogSoftmax", {memory_.read(input)},
                            input.dtype(), input.shape(), {axis_attribute(axis)}));
}

// RMSNormalization is of opset 23.
ValueId KernelNodes::root_mean_square(const RowNorm& norm, ValueId x, ValueId weight) {
  const Shape& shape = graph_.shape(x);
  const ValueId mean = graph_.add("ReduceMean", {graph_.broadcast("Mul", {x, x}), numbers(1)}, graph_.dtype(x),
                                  {shape[0], 1}, {integer_attribute("keepdims", 1)});
  const ValueId shifted = graph_.broadcast("Add", {mean, graph_.number(norm.epsilon, graph_.dtype(x))});
  const ValueId scaled = graph_.broadcast("Div", {x, graph_.like("Sqrt", {shifted})});
  return weight == Operand::kNoValue ? scaled : graph_.broadcast("Mul", {scaled, weight});
}

void KernelNodes::add(kernel::normalize_rows, const RowNorm& norm, const Array& input, const Array& weight,
                      const Array& bias, const Array& output, const Array& mean, const Array& scale) {
  const ValueId x = memory_.read(input);
  if (!norm.centred) {
    const ValueId y = root_mean_square(norm, x, weight.defined() ? memory_.read(weight) : Operand::kNoValue);
    result(output, bias.defined() ? graph_.broadcast("Add", {y, memory_.read(bias)}) : y);
    return;
  }
  std::vector<Operand> operands{x};
  operands.emplace_back(weight.defined() ? memory_.read(weight)
                                         : graph_.filled({input.shape()[1]}, Array::full({}, 1, input.dtype(), cpu())));
  if (bias.defined()) operands.emplace_back(memory_.read(bias));
  std::vector<TracedGraph::Value> outputs;
  for (const Array* each : {&output, &mean, &scale})
    outputs.push_back({input.dtype(), each->defined() ? each->shape() : Shape{input.shape()[0], 1}});
  const ValueId y = graph_.add("LayerNormalization", std::move(operands), std::move(outputs),
                               {integer_attribute("axis", 1), number_attribute("epsilon", norm.epsilon)});
  result(output, y);
  result(mean, y + 1);
  result(scale, y + 2);
}

void KernelNodes::add(kernel::gather, const Array& input, std::size_t axis, const Array& index, const Array& output) {
  const ValueId x = memory_.read(input);
  if (!selects_rows(input.shape(), axis, index)) {
    result(output, graph_.add("GatherElements", {x, memory_.read(index)}, input.dtype(), output.shape(),
                              {axis_attribute(axis)}));
    return;
  }
  Strides strides{index.strides()[axis]};
  const ValueId rows = memory_.read(as_strided(index, {index.shape()[axis]}, strides, index.offset()));
  result(output, graph_.add("Gather", {x, rows}, input.dtype(), output.shape(), {axis_attribute(axis)}));
}

void KernelNodes::add(kernel::scatter, Scatter kind, const Array& updates, std::size_t axis, const Array& index,
                      const Array& output) {
  constexpr std::string_view kReductions[] = {"add", "none", "mul", "max", "min"};
  const ValueId y = graph_.add(
      "ScatterElements", {memory_.read(output), memory_.read(index), memory_.read(updates)}, output.dtype(),
      output.shape(), {axis_attribute(axis), text_attribute("reduction", kReductions[static_cast<std::size_t>(kind)])});
  result(output, y);
}

void KernelNodes::add(kernel::conv2d, const Conv2dGeometry& geometry, const Array& input, const Array& weight,
                      const Array& output) {
  result(output, graph_.add("Conv", {memory_.read(input), memory_.read(weight)}, output.dtype(), output.shape(),
                            convolution_attributes(geometry, weight.shape())));
}

// A transposed convolution is the gradient of one.
void KernelNodes::add(kernel::conv2d_input_gradient, const Conv2dGeometry& geometry, const Array& gradient,
                      const Array& weight, const Array& input_gradient) {
  std::vector<Attribute> attributes = convolution_attributes(geometry, weight.shape());
  std::vector<std::int64_t> more;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t least = (gradient.shape()[axis + 2] - 1) * geometry.stride[axis] - 2 * geometry.padding[axis] +
                               geometry.dilation[axis] * (weight.shape()[axis + 2] - 1) + 1;
    more.push_back(input_gradient.shape()[axis + 2] - least);
  }
  attributes.push_back(integers_attribute("output_padding", std::move(more)));
  result(input_gradient, graph_.add("ConvTranspose", {memory_.read(gradient), memory_.read(weight)},
                                    input_gradient.dtype(), input_gradient.shape(), std::move(attributes)));
}

// Places of the largest elements are counted otherwise in ONNX.
void KernelNodes::add(kernel::max_pool2d, const Pool2dGeometry& geometry, const Array& input, const Array& output,
                      const Array& index) {
  memory_.write_unknown(index);
  result(output,
         graph_.add("MaxPool", {memory_.read(input)}, output.dtype(), output.shape(), pooling_attributes(geometry)));
}

void KernelNodes::add(kernel::avg_pool2d, const AvgPool2dGeometry& geometry, const Array& input, const Array& output) {
  std::vector<Attribute> attributes = pooling_attributes(geometry);
  attributes.push_back(integer_attribute("count_include_pad", geometry.count_include_pad ? 1 : 0));
  result(output,
         graph_.add("AveragePool", {memory_.read(input)}, output.dtype(), output.shape(), std::move(attributes)));
}

void KernelNodes::add(kernel::custom, const CustomKernel& kernel, std::span<const Array> /*inputs*/,
                      std::span<const Array> /*outputs*/) {
  raise("[save_onnx] the model calls {}, a kernel of the program, which has no operator in ONNX", kernel.name());
}

}  // namespace tutti::onnx
