// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/export/elementwise_nodes.h>

#include <tutti/backend/elementwise/formulas.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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
ValueId expm1(const Formula& f) {
  const ValueId half = f.of("Tanh", f.of("Mul", f.x(), f.number(0.5)));
  return f.of("Mul", half, f.of("Add", f.of("Exp", f.x()), f.number(1)));
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

ValueId elu(const Formula& f) {
  const auto [alpha, rate] = f.parameters;
  if (rate == 1.0) return f.graph.like("Elu", {f.x()}, {number_attribute("alpha", alpha)});
  if (rate == 1.0 / alpha) return f.graph.like("Celu", {f.x()}, {number_attribute("alpha", alpha)});
  raise("[save_onnx] elu with alpha {} and rate {} has no operator in ONNX", alpha, rate);
}

ValueId softplus(const Formula& f) {
  const double beta = f.parameters[0];
  if (beta == 1.0) return f.of("Softplus", f.x());
  return f.of("Mul", f.of("Softplus", f.of("Mul", f.x(), f.number(beta))), f.number(1 / beta));
}

// ONNX's Mod of floating types is C's fmod.
ValueId remainder(const Formula& f) {
  if (f.of_integers()) return f.of("Mod", f.x(), f.other());
  return f.of("Sub", f.x(), f.of("Mul", f.other(), f.of("Floor", f.of("Div", f.x(), f.other()))));
}
ValueId floor_divide(const Formula& f) {
  if (f.of_integers()) return f.of("Div", f.of("Sub", f.x(), f.of("Mod", f.x(), f.other())), f.other());
  return f.of("Floor", f.of("Div", f.x(), f.other()));
}
ValueId fmod(const Formula& f) {
  const ValueId y = f.of("Mod", f.x(), f.other());
  f.graph.nodes.back().attributes = {integer_attribute("fmod", 1)};
  return y;
}

ValueId logarithm(const Formula& f, double base) {
  return f.of("Mul", f.of("Log", f.x()), f.number(1 / std::log(base)));
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
    {"not_equal", [](const Formula& f) { return f.of("Not", f.compare("Equal", f.x(), f.other())); }},
    {"square", [](const Formula& f) { return f.of("Mul", f.x(), f.x()); }},
    {"rsqrt", [](const Formula& f) { return f.of("Reciprocal", f.of("Sqrt", f.x())); }},
    {"exp2", [](const Formula& f) { return f.of("Pow", f.number(2), f.x()); }},
    {"expm1", expm1},
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
    {"leaky_relu",
     [](const Formula& f) { return f.graph.like("LeakyRelu", {f.x()}, {number_attribute("alpha", f.parameters[0])}); }},
    {"gelu", [](const Formula& f) { return f.of("Gelu", f.x()); }},
    {"gelu_tanh",
     [](const Formula& f) { return f.graph.like("Gelu", {f.x()}, {text_attribute("approximate", "tanh")}); }},
    {"silu", [](const Formula& f) { return f.of("Mul", f.x(), f.of("Sigmoid", f.x())); }},
    {"elu", elu},
    {"softplus", softplus}};

}  // namespace

ValueId add_elementwise(TracedGraph& graph, const ElementwiseCall& call, std::span<const ValueId> inputs) {
  const std::string_view name = elementwise::kNames[call.operation];
  if (call.part != ElementwiseCall::Part::value) raise("[save_onnx] the model computes a gradient, of {}", name);
  const Formula formula{graph, inputs, call.parameters};
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

}  // namespace tutti::onnx
