// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/onnx_model.h>

#include <tutti/backend/raise.h>
#include <tutti/onnx/format/model_file.h>
#include <tutti/onnx/operators/operator_call.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace tutti {

namespace {

constexpr std::int64_t kOldest = 7;
constexpr std::int64_t kNewest = 28;
constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();  // an operand that is left out

/// One node, and where its values lie.
struct Step {
  onnx::Node node;
  onnx::Operator run = nullptr;
  std::vector<std::size_t> inputs;
  std::vector<std::size_t> outputs;
  std::vector<std::size_t> dropped;  // places that no later step reads
};

/// Names of a model's values, as places.
class Places {
 public:
  /// Throws DataError for a name that another value has: each is made once.
  std::size_t add(const std::string& path, const std::string& name) {
    if (name.empty() || !places_.emplace(name, count_).second)
      raise<DataError>("[onnx] {}: \"{}\" is {}", path, name, name.empty() ? "no name of a value" : "made twice");
    return count_++;
  }
  std::size_t find(const std::string& name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? kNowhere : found->second;
  }
  std::size_t count() const noexcept { return count_; }

 private:
  std::map<std::string, std::size_t> places_;
  std::size_t count_ = 0;
};

void check_operators(const std::string& path, const onnx::ModelFile& file) {
  std::map<std::string, int> missing;
  for (const onnx::Node& node : file.nodes) {
    const bool has_graph = std::ranges::any_of(node.attributes, &onnx::Attribute::is_graph);
    if (has_graph || !onnx::find_operator(node.operation)) ++missing[node.operation];
  }
  std::vector<std::string> words;
  for (const auto& [name, count] : missing) words.push_back(fmt::format("{} ({})", name, count));
  if (!words.empty())
    raise<DataError>("[onnx] {}: it needs operators that are not here: {}", path, fmt::join(words, ", "));
}

/// Operands that say how an operator works, or are statistics or states: from the first on, up to the last.
struct Settings {
  std::string_view operation;
  std::size_t first;
  std::size_t last;
};
constexpr std::size_t kAll = 64;
constexpr Settings kSettings[] = {{"BatchNormalization", 3, kAll},
                                  {"Clip", 1, kAll},
                                  {"ConstantOfShape", 0, kAll},
                                  {"CumProd", 1, kAll},
                                  {"CumSum", 1, kAll},
                                  {"Dropout", 1, kAll},
                                  {"Expand", 1, kAll},
                                  {"GRU", 4, 6},
                                  {"LSTM", 4, 7},
                                  {"OneHot", 1, kAll},
                                  {"Pad", 1, kAll},
                                  {"RNN", 4, 6},
                                  {"Range", 0, kAll},
                                  {"Reshape", 1, kAll},
                                  {"Resize", 1, kAll},
                                  {"Slice", 1, kAll},
                                  {"Tile", 1, kAll},
                                  {"TopK", 1, kAll},
                                  {"Trilu", 1, kAll},
                                  {"Upsample", 1, kAll},
                                  {"Where", 0, 1}};
// One number beside these is a factor or an epsilon, as exporters write them.
constexpr std::string_view kArithmetic[] = {"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub", "Where"};

/// Names of the values that outputs depend on otherwise than by what says how operators work.
std::set<std::string> trained_values(const onnx::ModelFile& file) {
  std::set<std::string> single;
  for (const auto& [name, array] : file.initializers)
    if (array.size() == 1) single.insert(name);
  std::set<std::string> found;
  for (const onnx::ValueInfo& output : file.outputs) found.insert(output.name);
  for (auto node = file.nodes.rbegin(); node != file.nodes.rend(); ++node) {
    if (std::ranges::none_of(node->outputs, [&](const std::string& name) { return found.contains(name); })) continue;
    const auto settings = std::ranges::find(kSettings, node->operation, &Settings::operation);
    const bool is_arithmetic = std::ranges::find(kArithmetic, node->operation) != std::end(kArithmetic);
    for (std::size_t i = 0; i < node->inputs.size(); ++i) {
      if (settings != std::end(kSettings) && i >= settings->first && i < settings->last) continue;
      if (is_arithmetic && single.contains(node->inputs[i])) continue;
      found.insert(node->inputs[i]);
    }
  }
  return found;
}

/// Throws an error of the first kind that `error` is of; of none, DataError.
template <class... Kinds> [[noreturn]] void raise_again(const Error& error, const std::string& message) {
  ((dynamic_cast<const Kinds*>(&error) != nullptr ? raise_message<Kinds>(message) : void()), ...);
  raise_message<DataError>(message);
}

/// Runs one node; errors name it.
onnx::Tensors run_step(const Step& step, const onnx::OperatorCall& call) {
  const auto named = [&](const std::exception& error) {
    return fmt::format("[onnx] {} \"{}\": {}", step.node.operation, step.node.name, error.what());
  };
  try {
    return step.run(call);
  } catch (const DataError&) {  // by OperatorCall::refuse, which names it
    throw;
  } catch (const Error& error) {
    raise_again<ShapeError, DTypeError, DeviceError, AutodiffError, OutOfMemoryError, LinearAlgebraError, CaptureError>(
        error, named(error));
  } catch (const std::logic_error& error) {  // of a container that is asked for what it has not
    raise_message<DataError>(named(error));
  }
}

std::vector<OnnxValue> described(const std::vector<onnx::ValueInfo>& values) {
  std::vector<OnnxValue> all;
  for (const onnx::ValueInfo& each : values) all.push_back({each.name, each.dtype, each.shape});
  return all;
}

/// Lengths that have a name, and the input that had them first.
using NamedLengths = std::map<std::string, std::pair<std::int64_t, std::string>>;

void check_input(const OnnxValue& wanted, const Tensor& given, NamedLengths& named) {
  if (!given.defined()) raise<ShapeError>("[onnx] input \"{}\" is undefined", wanted.name);
  if (wanted.dtype && given.dtype() != *wanted.dtype)
    raise<DTypeError>("[onnx] input \"{}\" is {}, not {}", wanted.name, to_string(given.dtype()),
                      to_string(*wanted.dtype));
  if (!wanted.shape) return;
  bool fits = wanted.shape->size() == given.rank();
  for (std::size_t i = 0; fits && i < given.rank(); ++i) {
    const std::string& told = (*wanted.shape)[i];
    const std::int64_t length = given.length(static_cast<std::int64_t>(i));
    if (told == "?") continue;
    if (std::ranges::all_of(told, [](char c) { return c >= '0' && c <= '9'; })) {
      fits = told == std::to_string(length);
      continue;
    }
    const auto& [first, input] = named.try_emplace(told, length, wanted.name).first->second;
    if (length != first)
      raise<ShapeError>("[onnx] input \"{}\" is {}: its {} is {}, and {} in input \"{}\"", wanted.name,
                        to_string(given.shape()), told, length, first, input);
  }
  if (!fits)
    raise<ShapeError>("[onnx] input \"{}\" is {}, not [{}]", wanted.name, to_string(given.shape()),
                      fmt::join(*wanted.shape, ", "));
}

}  // namespace

struct OnnxModel::Program {
  std::string path;
  std::int64_t opset = 0;
  std::vector<OnnxValue> inputs;
  std::vector<OnnxValue> outputs;
  std::vector<std::size_t> input_places;
  std::vector<std::size_t> output_places;
  std::vector<std::size_t> constant_places;
  std::vector<Step> steps;
  std::size_t places = 0;
};

OnnxModel::OnnxModel(const std::string& path, const OnnxOptions& options) {
  onnx::ModelFile file = onnx::read_model(path, options.device);
  if (file.opset < kOldest || file.opset > kNewest)
    raise<DataError>("[onnx] {}: it is of opset {}, and those from {} to {} are read", path, file.opset, kOldest,
                     kNewest);
  check_operators(path, file);
  const auto program = std::make_shared<Program>();
  program->path = path;
  program->opset = file.opset;
  program->inputs = described(file.inputs);
  program->outputs = described(file.outputs);
  Places places;
  for (const onnx::ValueInfo& input : file.inputs) program->input_places.push_back(places.add(path, input.name));
  const auto add_constant = [&](const std::string& name, Tensor value, bool is_weight) {
    program->constant_places.push_back(places.add(path, name));
    constants_.push_back({name, std::move(value), is_weight});
  };
  const std::set<std::string> trained = trained_values(file);
  for (auto& [name, array] : file.initializers) {
    const bool is_weight = is_floating(array.dtype()) && trained.contains(name) && !file.buffers.contains(name);
    add_constant(name, Tensor(std::move(array), is_weight && options.trainable), is_weight);
  }
  for (onnx::Node& node : file.nodes) {
    if (node.operation == "Constant" && node.outputs.size() == 1) {
      const onnx::OperatorCall call(node, {}, file.opset);
      add_constant(node.outputs[0], onnx::find_operator("Constant")(call)[0].to(options.device), false);
      continue;
    }
    Step step{.node = std::move(node), .inputs = {}, .outputs = {}, .dropped = {}};
    step.run = onnx::find_operator(step.node.operation);
    for (const std::string& name : step.node.inputs) {
      step.inputs.push_back(name.empty() ? kNowhere : places.find(name));
      if (!name.empty() && step.inputs.back() == kNowhere)
        raise<DataError>("[onnx] {}: {} \"{}\" needs \"{}\", which nothing before it makes", path, step.node.operation,
                         step.node.name, name);
    }
    for (const std::string& name : step.node.outputs)
      step.outputs.push_back(name.empty() ? kNowhere : places.add(path, name));
    program->steps.push_back(std::move(step));
  }
  for (const onnx::ValueInfo& output : file.outputs) {
    program->output_places.push_back(places.find(output.name));
    if (program->output_places.back() == kNowhere)
      raise<DataError>("[onnx] {}: nothing makes its output \"{}\"", path, output.name);
  }
  program->places = places.count();
  std::set<std::size_t> needed(program->output_places.begin(), program->output_places.end());
  for (std::size_t i = program->steps.size(); i-- > 0;) {
    Step& step = program->steps[i];
    for (const auto* used : {&step.inputs, &step.outputs})
      for (const std::size_t place : *used)
        if (place != kNowhere && needed.insert(place).second) step.dropped.push_back(place);
  }
  program_ = program;
}

std::vector<Tensor> OnnxModel::run(std::span<const Tensor> inputs) const {
  const Program& program = *program_;
  if (inputs.size() != program.inputs.size())
    raise<ShapeError>("[onnx] {} has {} inputs, not {}", program.path, program.inputs.size(), inputs.size());
  std::vector<Tensor> values(program.places);
  NamedLengths named;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_input(program.inputs[i], inputs[i], named);
    values[program.input_places[i]] = inputs[i];
  }
  for (std::size_t i = 0; i < constants_.size(); ++i) values[program.constant_places[i]] = constants_[i].value;
  std::vector<Tensor> operands;
  for (const Step& step : program.steps) {
    operands.clear();
    for (const std::size_t place : step.inputs) operands.push_back(place == kNowhere ? Tensor() : values[place]);
    const onnx::OperatorCall call(step.node, operands, program.opset);
    onnx::Tensors results = run_step(step, call);
    call.check_attributes();
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] == kNowhere) continue;
      if (i >= results.size()) call.refuse(fmt::format("output {} is not made", i));
      values[step.outputs[i]] = std::move(results[i]);
    }
    for (const std::size_t place : step.dropped) values[place] = Tensor();
  }
  std::vector<Tensor> outputs;
  for (const std::size_t place : program.output_places) outputs.push_back(values[place]);
  return outputs;
}

const std::vector<OnnxValue>& OnnxModel::inputs() const noexcept { return program_->inputs; }
const std::vector<OnnxValue>& OnnxModel::outputs() const noexcept { return program_->outputs; }
std::int64_t OnnxModel::opset() const noexcept { return program_->opset; }

void OnnxModel::visit(MemberVisitor& v) {
  for (Constant& each : constants_) {
    if (each.is_weight)
      v.parameter(each.name, each.value);
    else
      v.buffer(each.name, each.value);
  }
}

Tensor OnnxModel::compute(const Tensor& x) const {
  if (program_->inputs.size() != 1 || program_->outputs.size() != 1)
    raise<ShapeError>("[onnx] {} has {} inputs and {} outputs: run takes them", program_->path, program_->inputs.size(),
                      program_->outputs.size());
  return run({&x, 1})[0];
}

}  // namespace tutti
