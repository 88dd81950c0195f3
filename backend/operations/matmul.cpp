// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/backend.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/widening.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

namespace tutti {
namespace {

/// The operand as kernels take it: of its last two axes one has stride 1 and the other a stride of at least the first's
/// length. Rows of a wider matrix and transposed views are such; anything else is copied.
Array matrix_operand(const Array& operand) {
  const std::size_t row = operand.rank() - 2;
  const std::size_t column = operand.rank() - 1;
  const std::int64_t rows = operand.shape()[row];
  const std::int64_t columns = operand.shape()[column];
  Strides strides = operand.strides();
  // The stride of an axis of length 1 is never used, so it may be what fits.
  if (columns == 1) strides[column] = 1;
  if (rows == 1 && columns > 1) {
    if (strides[column] == 1)
      strides[row] = columns;
    else
      strides[row] = 1;
  }
  const bool by_rows = strides[column] == 1 && strides[row] >= columns;
  const bool by_columns = strides[row] == 1 && strides[column] >= rows;
  if (!by_rows && !by_columns) return operand.copy();
  if (strides == operand.strides()) return operand;
  return as_strided(operand, operand.shape(), strides, operand.offset());
}

Shape matrix_shape(const Shape& batch, std::int64_t rows, std::int64_t columns) {
  Shape shape = batch;
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

/// True when all matrices of the batch lie one below the other, so that the whole is one tall matrix.
bool is_tall(const Array& lhs, const Array& rhs) { return lhs.rank() > 2 && rhs.rank() == 2 && lhs.is_contiguous(); }

}  // namespace

// In place, one kernel each.
void Backend::finish_linear(const Array& bias, LinearActivation activation, const Array& output) {
  const auto run = [&](const auto& operation, std::span<const Array> inputs) {
    elementwise(elementwise::make_call(operation, ElementwiseCall::Part::value), inputs, output);
  };
  if (bias.defined()) {
    const Array inputs[] = {output, bias.broadcast_to(output.shape())};
    run(elementwise::Add{}, inputs);
  }
  if (activation == LinearActivation::relu) run(elementwise::Relu{}, {&output, 1});
  if (activation == LinearActivation::gelu) run(elementwise::Gelu{}, {&output, 1});
}

void Backend::linear(const Array& input, const Array& weight, const Array& bias, LinearActivation activation,
                     const Array& output) {
  matmul(input, weight, output);
  finish_linear(bias, activation, output);
}

Array matmul(const Array& lhs, const Array& rhs, const Array& out) {
  checks::require_alike("matmul", lhs, rhs);
  checks::require_floating("matmul", lhs);
  if (is_narrow(lhs) && !backend_for(lhs.device()).multiplies(lhs.dtype()))
    return narrowed("matmul", matmul(widened(lhs), widened(rhs)), lhs.dtype(), out);
  if (lhs.rank() < 2 || rhs.rank() < 2)
    raise<ShapeError>("[matmul] operands must have rank 2 or more: {} x {}", to_string(lhs.shape()),
                      to_string(rhs.shape()));
  const std::int64_t rows = lhs.length(-2);
  const std::int64_t inner = lhs.length(-1);
  const std::int64_t columns = rhs.length(-1);
  if (inner != rhs.length(-2))
    raise<ShapeError>("[matmul] inner dimensions differ: {} x {}", to_string(lhs.shape()), to_string(rhs.shape()));
  const Shape batch = broadcast_shapes("matmul", batch_of(lhs.shape()), batch_of(rhs.shape()));
  Array result = checks::output("matmul", out, matrix_shape(batch, rows, columns), lhs.dtype(), lhs.device());
  if (result.size() == 0) return result;
  if (inner == 0) {
    result.fill(0);
    return result;
  }
  Backend& backend = backend_for(lhs.device());
  if (is_tall(lhs, rhs)) {
    backend.matmul(lhs.reshape({-1, inner}), matrix_operand(rhs), result.reshape({-1, columns}));
    return result;
  }
  const Array a = matrix_operand(lhs);
  const Array b = matrix_operand(rhs);
  if (lhs.rank() == 2 && rhs.rank() == 2)
    backend.matmul(a, b, result);
  else
    backend.matmul(a.broadcast_to(matrix_shape(batch, rows, inner)),
                   b.broadcast_to(matrix_shape(batch, inner, columns)), result);
  return result;
}

Array linear(const Array& input, const Array& weight, const Array& bias, LinearActivation activation) {
  checks::require_enumerator("linear", "LinearActivation", activation, LinearActivation::gelu);
  checks::require_alike("linear", input, weight);
  checks::require_floating("linear", input);
  checks::require_rank("linear", "the input", input, 2);
  checks::require_rank("linear", "the weight", weight, 2);
  if (input.length(1) != weight.length(1))
    raise<ShapeError>("[linear] input {} does not fit weight {}: the input's last axis must be the weight's second",
                      to_string(input.shape()), to_string(weight.shape()));
  if (bias.defined()) {
    checks::require_alike("linear", input, bias);
    checks::require_shape("linear", "the bias", bias, {weight.length(0)});
  }
  Backend& backend = backend_for(input.device());
  if (is_narrow(input) && !(backend.multiplies(input.dtype()) && backend.rounds_after(activation))) {
    const Array wide = linear(widened(input), widened(weight), bias.defined() ? widened(bias) : bias, activation);
    return narrowed("linear", wide, input.dtype());
  }
  const Array result = Array::empty({input.length(0), weight.length(0)}, input.dtype(), input.device());
  if (result.size() == 0) return result;
  const Array row = bias.defined() ? bias.contiguous() : bias;
  if (input.length(1) > 0) {
    backend.linear(matrix_operand(input), matrix_operand(weight.transpose()), row, activation, result);
  } else {
    backend.fill(result, 0);
    backend.finish_linear(row, activation, result);
  }
  return result;
}

}  // namespace tutti
