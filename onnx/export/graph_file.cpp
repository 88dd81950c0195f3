// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/export/graph_file.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/files/file_arrays.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace tutti::onnx {

namespace {

constexpr std::int64_t kOpset = 20;

constexpr std::string_view kAdvice =
    "Loops over a length, recurrent networks among them, are unrolled, so that no axis may be named so "
    "(OnnxSaving::axes); where a length of the example is also a number of the program take another";

std::string at_place(const TracedNode& node) { return node.place.empty() ? "" : " in " + node.place; }

/// "block.linear/" of a layer "Net.block.linear: Linear"; empty for the model itself.
std::string path_of(const std::string& place) {
  const std::string whole = place.substr(0, place.find(':'));
  const std::size_t begin = whole.find('.');
  return begin == std::string::npos ? "" : whole.substr(begin + 1) + "/";
}

bool same_attributes(const std::vector<Attribute>& a, const std::vector<Attribute>& b) {
  return std::ranges::equal(a, b, [](const Attribute& one, const Attribute& other) {
    return one.name == other.name && one.number == other.number && one.integer == other.integer &&
           one.text == other.text && one.integers == other.integers &&
           one.array.has_value() == other.array.has_value() &&
           (!one.array || host_bytes(*one.array) == host_bytes(*other.array));
  });
}

bool all_same(const std::vector<std::int64_t>& values) {
  return std::ranges::all_of(values, [&](std::int64_t value) { return value == values.front(); });
}

/// One file while it is made: its names, and what lengths it has made numbers of.
class FileMaker {
 public:
  FileMaker(std::span<const TracedGraph> runs, const FreeLengths& lengths, const FileNames& names)
      : runs_(runs), graph_(runs.front()), lengths_(lengths), names_(names), names_of_values_(graph_.values()) {}

  ModelFile make() {
    file_.opset = kOpset;
    name_inputs();
    require_same_nodes();
    find_used();
    add_constants();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (is_used(graph_.nodes[i])) add_node(i);
    add_outputs();
    return std::move(file_);
  }

 private:
  std::string& name(ValueId value) { return names_of_values_[static_cast<std::size_t>(value)]; }
  bool is_used(const TracedNode& node) const {
    return std::ranges::any_of(node.outputs, [&](ValueId value) { return used_.contains(value); });
  }

  void name_inputs();
  void require_same_nodes() const;
  void find_used();
  void add_constants();
  bool is_same(std::size_t constant) const;
  bool make_of_lengths(std::size_t constant);
  void add_node(std::size_t place);
  void add_outputs();
  Node& append(std::string operation, std::vector<std::string> inputs, std::vector<std::string> outputs,
               std::vector<Attribute> attributes = {}, const std::string& place = {});
  std::vector<std::int64_t> values_of(std::size_t node, std::size_t operand, std::size_t number) const;
  std::string numbers_operand(std::size_t node, std::size_t operand);
  std::string constant_numbers(const std::vector<std::int64_t>&, bool is_scalar);
  std::string number_of_lengths(const LengthFormula&, bool is_place = false);
  std::optional<std::string> length_of_input(std::size_t node, const std::vector<std::int64_t>& values);
  std::string shape_of(const std::string& value, std::size_t axis);
  std::string length(std::size_t free_length);
  /// A name that no value has.
  std::string new_name(const std::string& stem) {
    std::string name;
    do name = stem + "_" + std::to_string(made_++);
    while (taken_.contains(name));
    return name;
  }

  std::span<const TracedGraph> runs_;
  const TracedGraph& graph_;  // the first run's
  const FreeLengths& lengths_;
  const FileNames& names_;
  ModelFile file_;
  std::vector<std::string> names_of_values_;
  std::set<ValueId> used_;
  std::map<ValueId, std::string> named_outputs_;  // names of outputs that a node makes
  std::map<std::pair<std::vector<std::int64_t>, bool>, std::string> constants_;
  std::map<std::pair<LengthFormula, bool>, std::string> made_of_lengths_;
  std::map<std::pair<std::string, std::size_t>, std::string> lengths_of_values_;
  std::set<std::string> taken_;  // names of inputs, outputs and members
  std::size_t made_ = 0;
};

void FileMaker::name_inputs() {
  taken_.insert(names_.inputs.begin(), names_.inputs.end());
  taken_.insert(names_.outputs.begin(), names_.outputs.end());
  for (const TracedGraph::Constant& constant : graph_.constants) taken_.insert(constant.name);
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    const ValueId input = graph_.inputs[i];
    std::vector<std::string> shape;
    for (std::size_t axis = 0; axis < graph_.shape(input).size(); ++axis) {
      const auto& free_length = names_.axes[i][axis];
      shape.push_back(free_length ? lengths_.name(*free_length) : std::to_string(graph_.shape(input)[axis]));
    }
    name(input) = names_.inputs[i];
    file_.inputs.push_back({names_.inputs[i], graph_.dtype(input), std::move(shape)});
  }
}

void FileMaker::require_same_nodes() const {
  for (std::size_t r = 1; r < runs_.size(); ++r) {
    const TracedGraph& run = runs_[r];
    const std::string lengths = fmt::format("with {} the model computes otherwise than with {}",
                                            lengths_.describe(lengths_.run(r)), lengths_.describe(lengths_.run(0)));
    const std::size_t count = std::min(run.nodes.size(), graph_.nodes.size());
    for (std::size_t i = 0; i < count; ++i) {
      const TracedNode& first = graph_.nodes[i];
      const TracedNode& other = run.nodes[i];
      bool same = first.operation == other.operation && first.outputs == other.outputs &&
                  first.inputs.size() == other.inputs.size();
      for (std::size_t j = 0; same && j < first.inputs.size(); ++j)
        same = first.inputs[j].value == other.inputs[j].value &&
               first.inputs[j].numbers.size() == other.inputs[j].numbers.size();
      if (!same)
        raise("[save_onnx] {}: its operator {} is {}{}, and was {}{}. {}", lengths, i, other.operation, at_place(other),
              first.operation, at_place(first), kAdvice);
      if (!same_attributes(first.attributes, other.attributes))
        raise("[save_onnx] {}: {}{} works otherwise. {}", lengths, first.operation, at_place(first), kAdvice);
    }
    if (run.nodes.size() != graph_.nodes.size() || run.constants.size() != graph_.constants.size() ||
        run.outputs != graph_.outputs)
      raise("[save_onnx] {}: it calls {} operators, and {} before. {}", lengths, run.nodes.size(), graph_.nodes.size(),
            kAdvice);
  }
}

void FileMaker::find_used() {
  used_.insert(graph_.outputs.begin(), graph_.outputs.end());
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i)
    if (graph_.value(graph_.outputs[i]).node != TracedGraph::kNowhere)
      named_outputs_.emplace(graph_.outputs[i], names_.outputs[i]);
  for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
    if (!is_used(*node)) continue;
    for (const Operand& operand : node->inputs)
      if (operand.is_value()) used_.insert(operand.value);
  }
}

bool FileMaker::is_same(std::size_t constant) const {
  const TracedGraph::Constant& first = graph_.constants[constant];
  return !first.name.empty() || std::ranges::all_of(runs_.subspan(1), [&](const TracedGraph& run) {
    const Array& other = run.constants[constant].array;
    return first.array.dtype() == other.dtype() && first.array.shape() == other.shape() &&
           host_bytes(first.array) == host_bytes(other);
  });
}

// A number that is one of lengths, or one divided by it, as means have it.
bool FileMaker::make_of_lengths(std::size_t constant) {
  const TracedGraph::Constant& first = graph_.constants[constant];
  for (const TracedGraph& run : runs_) {
    const Array& array = run.constants[constant].array;
    if (array.size() != 1 || array.dtype() != first.array.dtype() || !(array.shape() == first.array.shape()))
      return false;
  }
  const DType dtype = first.array.dtype();
  for (const bool inverse : {false, true}) {
    std::vector<std::int64_t> values;
    bool fits = true;
    for (const TracedGraph& run : runs_) {
      const auto number = run.constants[constant].array.cast(DType::f64).item<double>();
      const double of_lengths = std::round(inverse ? 1 / number : number);
      fits = fits && std::abs(of_lengths) < 1e15 && of_lengths != 0;
      if (!fits) break;
      values.push_back(static_cast<std::int64_t>(of_lengths));
      const Array again = Array::full({}, inverse ? 1 / of_lengths : of_lengths, DType::f64, cpu()).cast(dtype);
      fits = again.cast(DType::f64).item<double>() == number;
    }
    const auto formula = fits ? lengths_.formula(values) : std::nullopt;
    if (!formula || formula->is_constant()) continue;
    const std::string number = new_name("length");
    const std::string of_lengths = number_of_lengths(*formula);
    append("Cast", {of_lengths}, {number}, {integer_attribute("to", number_of(dtype))});
    std::string result = number;
    if (inverse) append("Reciprocal", {number}, {result = new_name("length")});
    name(first.value) = new_name("constant");
    append("Reshape", {result, constant_numbers({first.array.shape().begin(), first.array.shape().end()}, false)},
           {name(first.value)});
    return true;
  }
  return false;
}

void FileMaker::add_constants() {
  for (std::size_t i = 0; i < graph_.constants.size(); ++i) {
    const TracedGraph::Constant& constant = graph_.constants[i];
    if (!used_.contains(constant.value)) continue;
    if (is_same(i)) {
      name(constant.value) = constant.name.empty() ? new_name("constant") : constant.name;
      file_.initializers.emplace_back(name(constant.value), constant.array);
    } else if (!make_of_lengths(i)) {
      raise(
          "[save_onnx] the model makes values on the host, {} {}, that were others in another run: they depend on a "
          "length otherwise than as a factor or divisor, or change from call to call. Make them with operations, or "
          "name no axis so (OnnxSaving::axes)",
          to_string(constant.array.dtype()), to_string(constant.array.shape()));
    }
  }
}

Node& FileMaker::append(std::string operation, std::vector<std::string> inputs, std::vector<std::string> outputs,
                        std::vector<Attribute> attributes, const std::string& place) {
  std::string known_as = path_of(place) + new_name(operation);
  file_.nodes.push_back(
      {std::move(known_as), std::move(operation), std::move(inputs), std::move(outputs), std::move(attributes)});
  return file_.nodes.back();
}

void FileMaker::add_node(std::size_t place) {
  const TracedNode& node = graph_.nodes[place];
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Operand& operand = node.inputs[i];
    inputs.push_back(operand.is_value() ? name(operand.value) : numbers_operand(place, i));
  }
  // Those behind the last that is used are left out.
  std::size_t count = node.outputs.size();
  while (!used_.contains(node.outputs[count - 1])) --count;
  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < count; ++i) {
    const auto output = named_outputs_.find(node.outputs[i]);
    const std::string known_as = output == named_outputs_.end() ? new_name(node.operation) : output->second;
    outputs.push_back(name(node.outputs[i]) = known_as);
  }
  append(node.operation, std::move(inputs), std::move(outputs), node.attributes, node.place);
}

void FileMaker::add_outputs() {
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const ValueId output = graph_.outputs[i];
    // An input, a constant, or another output, too.
    if (name(output) != names_.outputs[i]) append("Identity", {name(output)}, {names_.outputs[i]});
    std::vector<std::string> shape;
    for (std::size_t axis = 0; axis < graph_.shape(output).size(); ++axis) {
      std::vector<std::int64_t> values;
      for (const TracedGraph& run : runs_) values.push_back(run.shape(output)[axis]);
      const auto formula = lengths_.formula(values);
      if (formula && formula->is_constant())
        shape.push_back(std::to_string(values.front()));
      else if (formula && formula->lengths.size() == 1 && formula->factor == 1 && formula->offset == 0)
        shape.push_back(lengths_.name(formula->lengths.front()));
      else
        shape.emplace_back("?");
    }
    file_.outputs.push_back({names_.outputs[i], graph_.dtype(output), std::move(shape)});
  }
}

std::vector<std::int64_t> FileMaker::values_of(std::size_t node, std::size_t operand, std::size_t number) const {
  std::vector<std::int64_t> values;
  for (const TracedGraph& run : runs_) values.push_back(run.nodes[node].inputs[operand].numbers[number]);
  return values;
}

// The length of an axis of the node's first input that was this number in all runs.
std::optional<std::string> FileMaker::length_of_input(std::size_t node, const std::vector<std::int64_t>& values) {
  const ValueId input = graph_.nodes[node].inputs[0].value;
  for (std::size_t axis = 0; axis < graph_.shape(input).size(); ++axis) {
    bool same = true;
    for (std::size_t r = 0; r < runs_.size(); ++r) same = same && runs_[r].shape(input)[axis] == values[r];
    if (same) return shape_of(name(input), axis);
  }
  return std::nullopt;
}

std::string FileMaker::constant_numbers(const std::vector<std::int64_t>& numbers, bool is_scalar) {
  std::string& known = constants_[{numbers, is_scalar}];
  if (!known.empty()) return known;
  known = new_name("numbers");
  const Shape shape = is_scalar ? Shape{} : Shape{static_cast<std::int64_t>(numbers.size())};
  file_.initializers.emplace_back(known, Array::from(numbers, shape, cpu()));
  return known;
}

// An array of one number.
std::string FileMaker::shape_of(const std::string& value, std::size_t axis) {
  std::string& known = lengths_of_values_[{value, axis}];
  if (!known.empty()) return known;
  known = new_name("length");
  append("Shape", {value}, {known},
         {integer_attribute("start", static_cast<std::int64_t>(axis)),
          integer_attribute("end", static_cast<std::int64_t>(axis + 1))});
  return known;
}

std::string FileMaker::length(std::size_t free_length) {
  for (std::size_t input = 0; input < names_.axes.size(); ++input)
    for (std::size_t axis = 0; axis < names_.axes[input].size(); ++axis)
      if (names_.axes[input][axis] == free_length) return shape_of(names_.inputs[input], axis);
  return {};
}

// An array of one number.
std::string FileMaker::number_of_lengths(const LengthFormula& formula, bool is_place) {
  const bool clamps = is_place && formula.offset < 0;
  std::string& known = made_of_lengths_[{formula, clamps}];
  if (!known.empty()) return known;
  std::string result = length(formula.lengths.front());
  const auto apply = [&](const char* operation, const std::string& operand) {
    const std::string made = new_name("length");
    append(operation, {result, operand}, {made});
    result = made;
  };
  for (std::size_t i = 1; i < formula.lengths.size(); ++i) apply("Mul", length(formula.lengths[i]));
  if (formula.factor != 1) apply("Mul", constant_numbers({formula.factor}, false));
  if (formula.offset != 0) apply("Add", constant_numbers({formula.offset}, false));
  if (clamps) apply("Max", constant_numbers({0}, false));
  return known = result;
}

// One of a Reshape's lengths may be left to be worked out. A slice that begins or ends before the first element does so
// at it, where ONNX would count from the back.
std::string FileMaker::numbers_operand(std::size_t node, std::size_t operand) {
  const TracedNode& traced = graph_.nodes[node];
  const std::size_t count = traced.inputs[operand].numbers.size();
  const bool is_scalar = traced.inputs[operand].is_scalar;
  const bool is_shape = traced.operation == "Reshape";
  const bool is_place = traced.operation == "Slice" && (operand == 1 || operand == 2);
  std::vector<std::string> parts;  // names of arrays
  std::vector<std::int64_t> constants;
  std::size_t varying = 0;
  const auto end_constants = [&] {
    if (!constants.empty()) parts.push_back(constant_numbers(constants, false));
    constants.clear();
  };
  for (std::size_t i = 0; i < count; ++i)
    if (!all_same(values_of(node, operand, i))) ++varying;
  bool may_leave_one = is_shape;  // as -1, which ONNX works out
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<std::int64_t> values = values_of(node, operand, i);
    if (all_same(values)) {
      constants.push_back(values.front());
      continue;
    }
    const auto formula = lengths_.formula(values);
    std::optional<std::string> number;
    if (formula && !(may_leave_one && varying == 1))
      number = number_of_lengths(*formula, is_place);
    else if (is_shape && varying > 1)
      number = length_of_input(node, values);
    if (!number && may_leave_one) {
      constants.push_back(-1);
      may_leave_one = false;
      continue;
    }
    if (!number)
      raise("[save_onnx] a number of {}{} was {} with {}, and {} with {}: how it depends on them is not seen. {}",
            traced.operation, at_place(traced), values.front(), lengths_.describe(lengths_.run(0)), values.back(),
            lengths_.describe(lengths_.run(runs_.size() - 1)), kAdvice);
    end_constants();
    parts.push_back(*number);
  }
  if (parts.empty()) return constant_numbers(constants, is_scalar);
  end_constants();
  if (is_scalar) {
    std::string scalar = new_name("length");
    append("Squeeze", {parts.front()}, {scalar});
    return scalar;
  }
  if (parts.size() == 1) return parts.front();
  std::string all = new_name("shape");
  append("Concat", std::move(parts), {all}, {integer_attribute("axis", 0)});
  return all;
}

}  // namespace

ModelFile file_of(std::span<const TracedGraph> runs, const FreeLengths& lengths, const FileNames& names) {
  return FileMaker(runs, lengths, names).make();
}

}  // namespace tutti::onnx
