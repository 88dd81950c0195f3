// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/export/elementwise_nodes.h>

#include <tutti/backend/elementwise/formulas.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::onnx {

namespace {

/// Operations that are one operator, of the same operands and without attributes.
constexpr std::pair<std::string_view, std::string_view> kSame[] = {
    {"negate", "Neg"},      {"add", "Add"},     {"subtract", "Sub"}, {"multiply", "Mul"},
    {"pow", "Pow"},         {"maximum", "Max"}, {"minimum", "Min"},  {"abs", "Abs"},
    {"sqrt", "Sqrt"},       {"exp", "Exp"},     {"log", "Log"},      {"sin", "Sin"},
    {"cos", "Cos"},         {"tan", "Tan"},     {"asin", "Asin"},    {"acos", "Acos"},
    {"atan", "Atan"},       {"sinh", "Sinh"},   {"cosh", "Cosh"},    {"tanh", "Tanh"},
    {"asinh", "Asinh"},     {"acosh", "Acosh"}, {"atanh", "Atanh"},  {"erf", "Erf"},
    {"sigmoid", "Sigmoid"}, {"sign", "Sign"},   {"relu", "Relu"},    {"hard_swish", "HardSwish"}};
constexpr std::pair<std::string_view, std::string_view> kComparisons[] = {{"equal", "Equal"},
                                                                          {"less", "Less"},
                                                                          {"less_equal", "LessOrEqual"},
                                                                          {"greater", "Greater"},
                                                                          {"greater_equal", "GreaterOrEqual"}};
/// Those of integers are other operators than those of bool.
constexpr std::pair<std::string_view, std::string_view> kBits[] = {
    {"bitwise_and", "And"}, {"bitwise_or", "Or"}, {"bitwise_xor", "Xor"}};
/// Of bool, for which ONNX's arithmetic is not defined.
constexpr std::pair<std::string_view, std::string_view> kOfBool[] = {
    {"multiply", "And"}, {"minimum", "And"}, {"maximum", "Or"}};
/// Integers stay as they are.
constexpr std::pair<std::string_view, std::string_view> kRoundings[] = {
    {"floor", "Floor"}, {"ceil", "Ceil"}, {"round", "Round"}};

template <std::size_t count>
const std::string_view* find(const std::pair<std::string_view, std::string_view> (&in)[count], std::string_view name) {
  const auto* const found = std::ranges::find(in, name, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(in) ? nullptr : &found->second;
}

/// One operation's operands, and what formulas are made of.
struct Formula {
  TracedGraph& graph;
  std::span<const ValueId> inputs;
  std::array<double, ElementwiseCall::kParameters> parameters;

  ValueId x() const { return inputs[0]; }
  ValueId other() const { return inputs[1]; }
  bool of_integers() const { return !is_floating(graph.dtype(x())); }
  ValueId number(double value) const { return graph.number(value, graph.dtype(x())); }
  ValueId of(std::string_view operation, ValueId a) const { return graph.like(std::string(operation), {a}); }
  ValueId of(std::string_view operation, ValueId a, ValueId b) const {
    return graph.broadcast(std::string(operation), {a, b});
  }
  ValueId compare(std::string_view operation, ValueId a, ValueId b) const {
    return graph.add(std::string(operation), {a, b}, DType::boolean,
                     broadcast_shapes(operation, graph.shape(a), graph.shape(b)));
  }
  ValueId where(ValueId mask, ValueId a, ValueId b) const {
    Shape shape = broadcast_shapes("where", graph.shape(mask), graph.shape(a));
    shape = broadcast_shapes("where", shape, graph.shape(b));
    return graph.add("Where", {mask, a, b}, graph.dtype(a), shape);
  }
};

using MakeFormula = ValueId (*)(const Formula&);

// 2 atanh(x / (2 + x)) is log(1 + x) without the loss of digits near 0.
ValueId log1p(const Formula& f) {
  const ValueId near = f.of("Mul", f.number(2), f.of("Atanh", f.of("Div", f.x(), f.of("Add", f.x(), f.number(2)))));
  const ValueId far = f.of("Log", f.of("Add", f.x(), f.number(1)));
  return f.where(f.compare("Less", f.of("Abs", f.x()), f.number(0.5)), near, far);
}

// tanh(x / 2) (exp(x) + 1) is exp(x) - 1 without the loss of digits near 0.
ValueId expm1(const Formula& f, ValueId x) {
  const ValueId half = f.of("Tanh", f.of("Mul", x, f.number(0.5)));
  return f.of("Mul", half, f.of("Add", f.of("Exp", x), f.number(1)));
}

// The larger plus log(1 + exp(-|a - b|)); equal ones, infinite too, have no difference to take.
ValueId logaddexp(const Formula& f) {
  const ValueId larger = f.of("Max", f.x(), f.other());
  const ValueId apart = f.of("Neg", f.of("Abs", f.of("Sub", f.x(), f.other())));
  const ValueId more =
      f.where(f.compare("Equal", f.x(), f.other()), f.number(std::numbers::ln2), f.of("Softplus", apart));
  return f.of("Add", larger, more);
}

ValueId clip(const Formula& f) {
  const auto bound = [&](double value) {
    if (!f.of_integers()) return f.number(value);
    return f.graph.number(static_cast<double>(Scalar(value).to<std::int64_t>()), f.graph.dtype(f.x()));
  };
  return f.graph.like("Clip", {f.x(), bound(f.parameters[0]), bound(f.parameters[1])});
}

// Attributes are f32, and Celu's type, too.
ValueId elu(const Formula& f) {
  const auto [alpha, rate] = f.parameters;
  const DType dtype = f.graph.dtype(f.x());
  if (dtype != DType::f64 && rate == 1.0) return f.graph.like("Elu", {f.x()}, {number_attribute("alpha", alpha)});
  if (dtype == DType::f32 && rate == 1.0 / alpha)
    return f.graph.like("Celu", {f.x()}, {number_attribute("alpha", alpha)});
  const ValueId below = f.of("Mul", f.number(alpha), expm1(f, f.of("Mul", f.x(), f.number(rate))));
  return f.where(f.compare("Greater", f.x(), f.number(0)), f.x(), below);
}

ValueId softplus(const Formula& f) {
  const double beta = f.parameters[0];
  if (beta == 1.0) return f.of("Softplus", f.x());
  return f.of("Mul", f.of("Softplus", f.of("Mul", f.x(), f.number(beta))), f.number(1 / beta));
}

ValueId fmod(const Formula& f, ValueId a, ValueId b) {
  const ValueId left = f.of("Mod", a, b);
  f.graph.nodes.back().attributes = {integer_attribute("fmod", 1)};
  return left;
}

/// Integers, which nobody is to divide by what is `bad`: 0, and -1, by which the least number has no quotient.
struct SafeDivisor {
  ValueId zero;
  ValueId minus_one;
  ValueId bad;
  ValueId divisor;
  explicit SafeDivisor(const Formula& f)
      : zero(f.compare("Equal", f.other(), f.number(0))),
        minus_one(f.compare("Equal", f.other(), f.number(-1))),
        bad(f.of("Or", zero, minus_one)),
        divisor(f.where(bad, f.number(1), f.other())) {}
};

/// True where what a division leaves has not the divisor's sign.
ValueId leaves_other_sign(const Formula& f, ValueId left, ValueId b) {
  const ValueId zero = f.number(0);
  const ValueId differs = f.of("Xor", f.compare("Less", left, zero), f.compare("Less", b, zero));
  return f.of("And", f.of("Not", f.compare("Equal", left, zero)), differs);
}

ValueId fmod(const Formula& f) {
  if (!f.of_integers()) return fmod(f, f.x(), f.other());
  const SafeDivisor by(f);
  return f.where(by.bad, f.number(0), fmod(f, f.x(), by.divisor));
}

ValueId remainder(const Formula& f) {
  if (f.of_integers()) {
    const SafeDivisor by(f);
    return f.where(by.bad, f.number(0), f.of("Mod", f.x(), by.divisor));
  }
  const ValueId left = fmod(f, f.x(), f.other());
  return f.where(leaves_other_sign(f, left, f.other()), f.of("Add", left, f.other()), left);
}

// The quotient without what is left is whole, but for its rounding.
ValueId floor_divide_floats(const Formula& f) {
  const ValueId left = fmod(f, f.x(), f.other());
  const ValueId whole = f.of("Div", f.of("Sub", f.x(), left), f.other());
  const ValueId down = f.where(leaves_other_sign(f, left, f.other()), f.of("Sub", whole, f.number(1)), whole);
  const ValueId rounded = f.of("Round", down);
  const ValueId quotient = f.of("Div", f.x(), f.other());
  const ValueId by_zero = f.compare("Equal", f.other(), f.number(0));
  return f.where(by_zero, quotient, rounded);
}

ValueId floor_divide(const Formula& f) {
  if (!f.of_integers()) return floor_divide_floats(f);
  const SafeDivisor by(f);
  const ValueId cut = f.of("Div", f.x(), by.divisor);
  const ValueId left = fmod(f, f.x(), by.divisor);
  const ValueId down = f.where(leaves_other_sign(f, left, by.divisor), f.of("Sub", cut, f.number(1)), cut);
  return f.where(by.zero, f.number(0), f.where(by.minus_one, f.of("Neg", f.x()), down));
}

// Attributes are f32.
ValueId leaky_relu(const Formula& f) {
  const double slope = f.parameters[0];
  if (f.graph.dtype(f.x()) != DType::f64) return f.graph.like("LeakyRelu", {f.x()}, {number_attribute("alpha", slope)});
  return f.where(f.compare("Greater", f.x(), f.number(0)), f.x(), f.of("Mul", f.x(), f.number(slope)));
}

// A quotient of logarithms, but for powers of the base, whose logarithm is whole.
ValueId logarithm(const Formula& f, double base) {
  const ValueId quotient = f.of("Div", f.of("Log", f.x()), f.number(std::log(base)));
  const ValueId whole = f.of("Round", quotient);
  const ValueId is_near = f.compare("Less", f.of("Abs", f.of("Sub", quotient, whole)), f.number(1e-3));
  const ValueId is_power = f.compare("Equal", f.of("Pow", f.number(base), whole), f.x());
  return f.where(f.of("And", is_near, is_power), whole, quotient);
}

/// True of negative numbers and zeros, which a quotient tells from positive ones.
ValueId is_negative(const Formula& f, ValueId x) {
  const ValueId zero = f.number(0);
  return f.of("Or", f.compare("Less", x, zero), f.compare("Less", f.of("Div", f.number(1), x), zero));
}

// The angle of the first octant, turned into the one where the point lies.
ValueId atan2(const Formula& f) {
  const ValueId a = f.of("Abs", f.x());
  const ValueId b = f.of("Abs", f.other());
  const ValueId zero = f.number(0);
  const ValueId largest = f.of("Max", a, b);
  const ValueId ratio = f.where(f.compare("Equal", a, b), f.number(1), f.of("Div", f.of("Min", a, b), largest));
  const ValueId octant = f.of("Atan", f.where(f.compare("Equal", largest, zero), zero, ratio));
  const ValueId quadrant =
      f.where(f.compare("Greater", a, b), f.of("Sub", f.number(std::numbers::pi / 2), octant), octant);
  const ValueId half = f.where(is_negative(f, f.other()), f.of("Sub", f.number(std::numbers::pi), quadrant), quadrant);
  return f.where(is_negative(f, f.x()), f.of("Neg", half), half);
}

// A sum divided by the number of its terms is a mean, whose number may depend on lengths in any way.
ValueId divide(const Formula& f) {
  const TracedNode* reshaped = f.graph.made_by(f.x(), "Reshape");
  const ValueId sum = reshaped != nullptr ? reshaped->inputs[0].value : f.x();
  const TracedNode* summed = f.graph.made_by(sum, "ReduceSum");
  const std::optional<double> count = f.graph.constant_number(f.other());
  if (summed != nullptr && count) {
    const ValueId terms = summed->inputs[0].value;
    const auto elements = [&](ValueId x) { return static_cast<double>(element_count(f.graph.shape(x))); };
    if (elements(terms) == *count * elements(sum)) {
      const ValueId mean = f.graph.add("ReduceMean", {terms, summed->inputs[1]}, f.graph.dtype(sum),
                                       Shape(f.graph.shape(sum)), std::vector<Attribute>(summed->attributes));
      return f.graph.reshape(mean, Shape(f.graph.shape(f.x())));
    }
  }
  return f.of("Div", f.x(), f.other());
}

const std::map<std::string_view, MakeFormula> kFormulas = {
    {"divide", divide},
    {"atan2", atan2},
    {"not_equal", [](const Formula& f) { return f.of("Not", f.compare("Equal", f.x(), f.other())); }},
    {"square", [](const Formula& f) { return f.of("Mul", f.x(), f.x()); }},
    {"rsqrt", [](const Formula& f) { return f.of("Reciprocal", f.of("Sqrt", f.x())); }},
    {"exp2", [](const Formula& f) { return f.of("Pow", f.number(2), f.x()); }},
    {"expm1", [](const Formula& f) { return expm1(f, f.x()); }},
    {"log1p", log1p},
    {"log2", [](const Formula& f) { return logarithm(f, 2); }},
    {"log10", [](const Formula& f) { return logarithm(f, 10); }},
    {"logaddexp", logaddexp},
    {"remainder", remainder},
    {"floor_divide", floor_divide},
    {"fmod", fmod},
    {"trunc",
     [](const Formula& f) {
       return f.of_integers() ? f.x() : f.of("Mul", f.of("Sign", f.x()), f.of("Floor", f.of("Abs", f.x())));
     }},
    {"clip", clip},
    {"hard_tanh", clip},
    {"leaky_relu", leaky_relu},
    {"gelu", [](const Formula& f) { return f.of("Gelu", f.x()); }},
    {"gelu_tanh",
     [](const Formula& f) { return f.graph.like("Gelu", {f.x()}, {text_attribute("approximate", "tanh")}); }},
    {"silu", [](const Formula& f) { return f.of("Mul", f.x(), f.of("Sigmoid", f.x())); }},
    {"elu", elu},
    {"softplus", softplus}};

/// Operands of one type.
ValueId add_operation(TracedGraph& graph, std::string_view name, const Formula& formula) {
  const std::span<const ValueId> inputs = formula.inputs;
  const DType dtype = graph.dtype(inputs.front());
  const auto apply = [&](std::string_view operation) {
    return inputs.size() == 1 ? formula.of(operation, inputs[0]) : formula.of(operation, inputs[0], inputs[1]);
  };
  if (const std::string_view* bits = find(kBits, name))
    return apply(dtype == DType::boolean ? std::string(*bits) : "Bitwise" + std::string(*bits));
  if (const std::string_view* comparison = find(kComparisons, name)) {
    const bool as_number = dtype == DType::boolean && *comparison != "Equal";  // ONNX orders no bools
    const auto operand = [&](ValueId x) { return as_number ? graph.cast(x, DType::i32) : x; };
    return formula.compare(*comparison, operand(inputs[0]), operand(inputs[1]));
  }
  if (const std::string_view* rounding = find(kRoundings, name))
    return is_floating(dtype) ? apply(*rounding) : inputs.front();
  if (dtype == DType::boolean)
    if (const std::string_view* operation = find(kOfBool, name)) return apply(*operation);
  if (const std::string_view* operation = find(kSame, name)) return apply(*operation);
  if (const auto found = kFormulas.find(name); found != kFormulas.end()) return found->second(formula);
  raise("[save_onnx] the model calls {}, which ONNX's operators do not make up", name);
}

}  // namespace

// Many operators lack bf16 and integers of 8 bits: these are computed as f32, as kernels do, and as i32. f16 would be
// rounded between the operators of a formula.
ValueId add_elementwise(TracedGraph& graph, const ElementwiseCall& call, std::span<const ValueId> inputs) {
  const std::string_view name = elementwise::kNames[call.operation];
  if (call.part != ElementwiseCall::Part::value) raise("[save_onnx] the model computes a gradient, of {}", name);
  const DType dtype = graph.dtype(inputs.front());
  const bool rounds = dtype == DType::bf16 || (dtype == DType::f16 && kFormulas.contains(name));
  const DType wide = rounds ? DType::f32 : dtype == DType::u8 || dtype == DType::i8 ? DType::i32 : dtype;
  std::vector<ValueId> operands;
  for (const ValueId input : inputs) operands.push_back(graph.cast(input, wide));
  const ValueId result = add_operation(graph, name, {graph, operands, call.parameters});
  return graph.dtype(result) == wide ? graph.cast(result, dtype) : result;
}

}  // namespace tutti::onnx
