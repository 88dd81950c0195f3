// SPDX-License-Identifier: Apache-2.0

// The elementwise operations, each once. Whoever includes this defines those of these macros before that concern it:
//
//   TUTTI_UNARY(Operation, function, (parameter, default)...)   one operand
//   TUTTI_BINARY(Operation, function)                           two operands
//   TUTTI_UNARY_BY_HAND(Operation), TUTTI_BINARY_BY_HAND(Operation)
//   TUTTI_COMPARISON(Operation)
//
// From here come the lists of lists.h, with them the CPU's tables, CUDA's launchers and the tests; and the named
// function on tensors, `Tensor function(const Tensor& x, double parameter = default...)`, of those that are not by
// hand: what these have beside their struct stands in autodiff/operations/elementwise_operations.*, as do operators and
// comparisons.

#ifndef TUTTI_UNARY
#define TUTTI_UNARY(Operation, ...)
#endif
#ifndef TUTTI_BINARY
#define TUTTI_BINARY(Operation, ...)
#endif
#ifndef TUTTI_UNARY_BY_HAND
#define TUTTI_UNARY_BY_HAND(Operation)
#endif
#ifndef TUTTI_BINARY_BY_HAND
#define TUTTI_BINARY_BY_HAND(Operation)
#endif
#ifndef TUTTI_COMPARISON
#define TUTTI_COMPARISON(Operation)
#endif

// --- comparisons, which give bool
TUTTI_COMPARISON(Equal)
TUTTI_COMPARISON(NotEqual)
TUTTI_COMPARISON(Less)
TUTTI_COMPARISON(LessEqual)
TUTTI_COMPARISON(Greater)
TUTTI_COMPARISON(GreaterEqual)

// --- arithmetic and bits
TUTTI_UNARY_BY_HAND(Negate)
TUTTI_BINARY_BY_HAND(Add)
TUTTI_BINARY_BY_HAND(Subtract)
TUTTI_BINARY_BY_HAND(Multiply)
TUTTI_BINARY_BY_HAND(Divide)
/// floor(a / b), as Python's //; of integers, x / 0 is 0. The gradient is 0.
TUTTI_BINARY(FloorDivide, floor_divide)
/// a - b floor(a / b), as Python's %; of integers, x % 0 is 0. Gradients: 1 and -floor(a / b).
TUTTI_BINARY(Remainder, remainder)
/// a - b trunc(a / b), as C's; of integers, fmod(x, 0) is 0. Gradients: 1 and -trunc(a / b).
TUTTI_BINARY(Fmod, fmod)
TUTTI_BINARY_BY_HAND(Pow)
TUTTI_BINARY_BY_HAND(Maximum)
TUTTI_BINARY_BY_HAND(Minimum)
TUTTI_BINARY_BY_HAND(BitAnd)
TUTTI_BINARY_BY_HAND(BitOr)
TUTTI_BINARY_BY_HAND(BitXor)
/// Gradient 0 at 0.
TUTTI_UNARY(Abs, abs)
TUTTI_UNARY(Square, square)
/// Integers give f32; the gradient at 0 is infinite.
TUTTI_UNARY(Sqrt, sqrt)
/// 1 / sqrt(x); integers give f32.
TUTTI_UNARY(Rsqrt, rsqrt)

// --- functions; integers are taken as f32, and outside a function's domain there is NaN. The gradient is the
// derivative, infinite where that is (log at 0).
TUTTI_UNARY(Exp, exp)
/// 2^x
TUTTI_UNARY(Exp2, exp2)
/// exp(x) - 1, accurate near 0
TUTTI_UNARY(Expm1, expm1)
/// Logarithm to base e.
TUTTI_UNARY(Log, log)
/// log(1 + x), accurate near 0
TUTTI_UNARY(Log1p, log1p)
TUTTI_UNARY(Log2, log2)
TUTTI_UNARY(Log10, log10)
/// log(exp(a) + exp(b)) without overflow
TUTTI_BINARY(LogAddExp, logaddexp)
/// x in radians
TUTTI_UNARY(Sin, sin)
TUTTI_UNARY(Cos, cos)
TUTTI_UNARY(Tan, tan)
TUTTI_UNARY(Asin, asin)
TUTTI_UNARY(Acos, acos)
TUTTI_UNARY(Atan, atan)
/// The angle of the point (b, a); gradient 0 at the origin.
TUTTI_BINARY(Atan2, atan2)
TUTTI_UNARY(Sinh, sinh)
TUTTI_UNARY(Cosh, cosh)
TUTTI_UNARY(Tanh, tanh)
TUTTI_UNARY(Asinh, asinh)
TUTTI_UNARY(Acosh, acosh)
TUTTI_UNARY(Atanh, atanh)
/// 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x
TUTTI_UNARY(Erf, erf)
/// The y with erf(y) = x: infinite at -1 and 1, NaN beyond.
TUTTI_UNARY(Erfinv, erfinv)
/// 1 / (1 + exp(-x))
TUTTI_UNARY(Sigmoid, sigmoid)

// --- steps, whose gradient is 0, and bounds; integers stay as they are
/// -1, 0 or 1; NaN stays NaN
TUTTI_UNARY(Sign, sign)
TUTTI_UNARY_BY_HAND(Floor)
TUTTI_UNARY_BY_HAND(Ceil)
TUTTI_UNARY_BY_HAND(Round)
TUTTI_UNARY_BY_HAND(Trunc)
TUTTI_UNARY_BY_HAND(Clip)

// --- activations. Floating types; integers become f32, but in relu. At a corner the gradient is that of the left side;
// where there are two, it is 0, and 1 for hard_swish at 3.
/// max(x, 0); NaN stays NaN; gradient 0 at 0
TUTTI_UNARY(Relu, relu)
/// x > 0 ? x : slope x. Maas et al., "Rectifier Nonlinearities Improve Neural Network Acoustic Models" (2013)
TUTTI_UNARY(LeakyRelu, leaky_relu, (slope, 0.01))
/// x Phi(x), exactly, with Phi the normal distribution function. Hendrycks and Gimpel, "Gaussian Error Linear Units"
/// (2016)
TUTTI_UNARY(Gelu, gelu)
/// The same paper's approximation: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
TUTTI_UNARY(GeluTanh, gelu_tanh)
/// x sigmoid(x). Elfwing et al. (2017)
TUTTI_UNARY(Silu, silu)
TUTTI_UNARY_BY_HAND(Elu)
/// log(1 + exp(beta x)) / beta, without overflow
TUTTI_UNARY(Softplus, softplus, (beta, 1.0))
/// clip, with gradient 0 at the bounds
TUTTI_UNARY(HardTanh, hard_tanh, (low, -1.0), (high, 1.0))
/// x hard_sigmoid(x). Howard et al., "Searching for MobileNetV3" (2019)
TUTTI_UNARY(HardSwish, hard_swish)

#undef TUTTI_UNARY
#undef TUTTI_BINARY
#undef TUTTI_UNARY_BY_HAND
#undef TUTTI_BINARY_BY_HAND
#undef TUTTI_COMPARISON
