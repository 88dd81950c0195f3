// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/activation.h>
#include <tutti/onnx/operators/operator_call.h>

#include <cmath>
#include <limits>

namespace tutti::onnx {

namespace {

using Call = OperatorCall;

template <Tensor (*function)(const Tensor&)> Tensors unary(const Call& call) { return {function(call.in(0))}; }
template <Tensor (*function)(const Tensor&, const Tensor&)> Tensors binary(const Call& call) {
  if (call.integer("broadcast", 0) != 0 || call.has_attribute("axis"))
    call.refuse("broadcasting along an axis, as before opset 7");
  return {function(call.in(0), call.in(1))};
}

/// All inputs, joined pair by pair, in the type of the first.
template <Tensor (*function)(const Tensor&, const Tensor&)> Tensor joined(const Call& call) {
  Tensor result = call.in(0);
  for (std::size_t i = 1; i < call.inputs(); ++i) result = function(result, call.in(i));
  return result;
}

Tensor divided(const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype())) return a / b;
  return cast(floor_divide(a - fmod(a, b), b), a.dtype());  // towards 0
}

// Operators as functions with names: `operator>` cannot be an argument of a template.
Tensor added(const Tensor& a, const Tensor& b) { return a + b; }
Tensor subtracted(const Tensor& a, const Tensor& b) { return a - b; }
Tensor multiplied(const Tensor& a, const Tensor& b) { return a * b; }
Tensor negated(const Tensor& x) { return -x; }
Tensor inverted(const Tensor& x) { return ~x; }
Tensor both_bits(const Tensor& a, const Tensor& b) { return a & b; }
Tensor either_bits(const Tensor& a, const Tensor& b) { return a | b; }
Tensor unlike_bits(const Tensor& a, const Tensor& b) { return a ^ b; }
Tensor equals(const Tensor& a, const Tensor& b) { return a == b; }
Tensor greater(const Tensor& a, const Tensor& b) { return a > b; }
Tensor at_least(const Tensor& a, const Tensor& b) { return a >= b; }
Tensor less(const Tensor& a, const Tensor& b) { return a < b; }
Tensor at_most(const Tensor& a, const Tensor& b) { return a <= b; }

Tensors power(const Call& call) {
  const Tensor& base = call.in(0);
  const Tensor& exponent = call.in(1);
  if (is_floating(base.dtype()) || !is_floating(exponent.dtype())) return {cast(pow(base, exponent), base.dtype())};
  return {cast(pow(cast(base, DType::f64), cast(exponent, DType::f64)), base.dtype())};  // integers are exact there
}

Tensors clipped(const Call& call) {
  const Tensor& x = call.in(0);
  Tensor result = x;
  if (call.opset() < 11) {
    const bool has_widest = x.dtype() == DType::f32 || x.dtype() == DType::f64;
    const double widest = has_widest ? std::numeric_limits<float>::max() : std::numeric_limits<double>::infinity();
    const double low = call.number("min", -widest);
    const double high = call.number("max", widest);
    return {minimum(maximum(x, scalar_like(x, low)), scalar_like(x, high))};
  }
  if (call.has(1)) result = maximum(result, call.in(1));
  if (call.has(2)) result = minimum(result, call.in(2));
  return {result};
}

Tensors cast_to(const Call& call) {
  const std::int64_t number = call.integer("to", 0);
  (void)call.integer("saturate", 1);
  (void)call.text("round_mode", "up");
  const auto dtype = dtype_of(number);
  if (!dtype) call.refuse("casts to ONNX's type " + std::to_string(number) + ", which no array here has");
  return {cast(call.in(0), *dtype)};
}

Tensors cast_like(const Call& call) {
  (void)call.integer("saturate", 1);
  (void)call.text("round_mode", "up");
  return {cast(call.in(0), call.in(1).dtype())};
}

Tensors softmax_like(const Call& call, Tensor (*function)(const Tensor&, std::int64_t)) {
  const Tensor& x = call.in(0);
  if (call.opset() >= 13) return {function(x, call.integer("axis", -1))};
  // All axes from this one on are one.
  std::int64_t axis = call.integer("axis", 1);
  if (axis < 0) axis += x.dim();
  std::int64_t rows = 1;
  for (std::int64_t i = 0; i < axis; ++i) rows *= x.length(i);
  const std::int64_t columns = rows == 0 ? 0 : x.size() / rows;
  return {reshape(function(reshape(x, {rows, columns}), 1), x.shape())};
}

Tensor hardmax(const Tensor& x, std::int64_t axis) {
  const Tensor y = one_hot(argmax(x, axis), x.length(axis), x.dtype());
  return moveaxis(y, -1, axis);
}

Tensors gelu_of(const Call& call) {
  const std::string kind = call.text("approximate", "none");
  if (kind != "none" && kind != "tanh") call.refuse("approximate is '" + kind + "'");
  return {kind == "none" ? gelu(call.in(0)) : gelu_tanh(call.in(0))};
}

Tensors mod(const Call& call) {
  return {call.integer("fmod", 0) != 0 ? fmod(call.in(0), call.in(1)) : remainder(call.in(0), call.in(1))};
}

Tensors infinite(const Call& call) {
  const bool positive = call.integer("detect_positive", 1) != 0;
  const bool negative = call.integer("detect_negative", 1) != 0;
  const Tensor& x = call.in(0);
  const Tensor found = isinf(x);
  if (positive && negative) return {found};
  const Tensor zero = scalar_like(x, 0.0);
  if (positive) return {logical_and(found, x > zero)};
  if (negative) return {logical_and(found, x < zero)};
  return {zeros(x.shape(), {.dtype = DType::boolean, .device = x.device()})};
}

Tensors shrunk(const Call& call) {
  const DType dtype = call.in(0).dtype();
  const Tensor x = is_floating(dtype) ? call.in(0) : cast(call.in(0), DType::f64);
  const double edge = call.number("lambd", 0.5);
  const double bias = call.number("bias", 0.0);
  const Tensor shift = scalar_like(x, bias);
  const Tensor zero = scalar_like(x, 0.0);
  return {cast(where(x < scalar_like(x, -edge), x + shift, where(x > scalar_like(x, edge), x - shift, zero)), dtype)};
}

Tensors hard_sigmoid_of(const Call& call) {
  const Tensor& x = call.in(0);
  const Tensor y = x * scalar_like(x, call.number("alpha", 0.2)) + scalar_like(x, call.number("beta", 0.5));
  return {minimum(maximum(y, scalar_like(y, 0.0)), scalar_like(y, 1.0))};
}

Tensors selu_of(const Call& call) {
  const Tensor& x = call.in(0);
  const double alpha = call.number("alpha", 1.67326319217681884765625);
  const double gamma = call.number("gamma", 1.05070102214813232421875);
  return {elu(x, alpha) * scalar_like(x, gamma)};
}

Tensors parametric_relu(const Call& call) {
  const Tensor& x = call.in(0);
  return {where(x < scalar_like(x, 0.0), x * call.in(1), x)};
}

Tensor swish(const Call& call, const Tensor& x) {
  const double alpha = call.number("alpha", 1.0);
  return alpha == 1.0 ? silu(x) : x * sigmoid(x * scalar_like(x, alpha));
}

Tensor leaky(const Tensor& x, double slope) { return where(x < scalar_like(x, 0.0), x * scalar_like(x, slope), x); }

Tensors mean_of(const Call& call) {
  const Tensor total = joined<added>(call);
  return {total / scalar_like(total, static_cast<double>(call.inputs()))};
}

constexpr OperatorEntry kOperators[] = {
    {"Abs", unary<abs>},
    {"Acos", unary<acos>},
    {"Acosh", unary<acosh>},
    {"Add", binary<added>},
    {"And", binary<logical_and>},
    {"Asin", unary<asin>},
    {"Asinh", unary<asinh>},
    {"Atan", unary<atan>},
    {"Atanh", unary<atanh>},
    {"BitwiseAnd", binary<both_bits>},
    {"BitwiseNot", unary<inverted>},
    {"BitwiseOr", binary<either_bits>},
    {"BitwiseXor", binary<unlike_bits>},
    {"Cast", cast_to},
    {"CastLike", cast_like},
    {"Ceil", unary<ceil>},
    {"Celu", [](const Call& call) -> Tensors { return {celu(call.in(0), call.number("alpha", 1.0))}; }},
    {"Clip", clipped},
    {"Cos", unary<cos>},
    {"Cosh", unary<cosh>},
    {"Div", binary<divided>},
    {"Elu", [](const Call& call) -> Tensors { return {elu(call.in(0), call.number("alpha", 1.0))}; }},
    {"Equal", binary<equals>},
    {"Erf", unary<erf>},
    {"Exp", unary<exp>},
    {"Floor", unary<floor>},
    {"Gelu", gelu_of},
    {"Greater", binary<greater>},
    {"GreaterOrEqual", binary<at_least>},
    {"HardSigmoid", hard_sigmoid_of},
    {"HardSwish", unary<hard_swish>},
    {"Hardmax", [](const Call& call) { return softmax_like(call, hardmax); }},
    {"Identity", [](const Call& call) -> Tensors { return {call.in(0)}; }},
    {"IsInf", infinite},
    {"IsNaN", unary<isnan>},
    {"LeakyRelu", [](const Call& call) -> Tensors { return {leaky(call.in(0), call.number("alpha", 0.01))}; }},
    {"Less", binary<less>},
    {"LessOrEqual", binary<at_most>},
    {"Log", unary<log>},
    {"LogSoftmax", [](const Call& call) { return softmax_like(call, log_softmax); }},
    {"Max", [](const Call& call) -> Tensors { return {joined<maximum>(call)}; }},
    {"Mean", mean_of},
    {"Min", [](const Call& call) -> Tensors { return {joined<minimum>(call)}; }},
    {"Mish", unary<mish>},
    {"Mod", mod},
    {"Mul", binary<multiplied>},
    {"Neg", unary<negated>},
    {"Not", unary<logical_not>},
    {"Or", binary<logical_or>},
    {"PRelu", parametric_relu},
    {"Pow", power},
    {"Reciprocal", unary<reciprocal>},
    {"Relu", unary<relu>},
    {"Round", unary<round>},
    {"Selu", selu_of},
    {"Shrink", shrunk},
    {"Sigmoid", unary<sigmoid>},
    {"Sign", unary<sign>},
    {"Sin", unary<sin>},
    {"Sinh", unary<sinh>},
    {"Softmax", [](const Call& call) { return softmax_like(call, softmax); }},
    {"Softplus", [](const Call& call) -> Tensors { return {softplus(call.in(0))}; }},
    {"Softsign", unary<softsign>},
    {"Sqrt", unary<sqrt>},
    {"Sub", binary<subtracted>},
    {"Sum", [](const Call& call) -> Tensors { return {joined<added>(call)}; }},
    {"SwiGLU", [](const Call& call) -> Tensors { return {swish(call, call.in(0)) * call.in(1)}; }},
    {"Swish", [](const Call& call) -> Tensors { return {swish(call, call.in(0))}; }},
    {"Tan", unary<tan>},
    {"Tanh", unary<tanh>},
    {"ThresholdedRelu",
     [](const Call& call) -> Tensors { return {threshold(call.in(0), call.number("alpha", 1.0), 0.0)}; }},
    {"Where", [](const Call& call) -> Tensors { return {where(call.in(0), call.in(1), call.in(2))}; }},
    {"Xor", binary<logical_xor>},
};

}  // namespace

std::span<const OperatorEntry> elementwise_operators() { return kOperators; }

}  // namespace tutti::onnx
