// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/save_onnx.h>

#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/composed_calls.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/exchange/files/file_descriptor.h>
#include <tutti/onnx/export/free_lengths.h>
#include <tutti/onnx/export/graph_file.h>
#include <tutti/onnx/export/kernel_nodes.h>
#include <tutti/onnx/export/traced_graph.h>
#include <tutti/onnx/export/traced_memory.h>
#include <tutti/onnx/export/tracing_calls.h>
#include <tutti/onnx/format/model_writer.h>
#include <tutti/onnx/onnx_model.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <set>
#include <utility>

namespace tutti {

namespace {

using onnx::FileNames;
using onnx::FreeLength;
using onnx::FreeLengths;
using onnx::TracedGraph;

std::vector<std::string> names_or(const std::vector<std::string>& given, const std::string& otherwise,
                                  std::size_t count) {
  if (given.empty() && count == 1) return {otherwise};
  std::vector<std::string> names = given;
  for (std::size_t i = 0; given.empty() && i < count; ++i) names.push_back(otherwise + "_" + std::to_string(i));
  if (names.size() != count)
    raise("[save_onnx] there are {} names of {}s, and {} of these", names.size(), otherwise, count);
  return names;
}

std::vector<Tensor> detached(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> all;
  for (const Tensor& tensor : tensors) all.push_back(tensor.detach());
  return all;
}

/// The values in another order, and smaller where they are floats: largest ones and sums are others, too.
std::vector<Tensor> changed(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> all;
  for (const Tensor& tensor : tensors) {
    const Tensor turned = flip(tensor);
    all.emplace_back((is_floating(tensor.dtype()) ? turned * 0.75 : turned).array().copy());
  }
  return all;
}

/// Bytes of the narrowest floating type that a graph computes in; 8 if there is none.
std::size_t narrowest_float(const TracedGraph& graph) {
  std::size_t bytes = 8;
  for (std::size_t i = 0; i < graph.values(); ++i) {
    const DType dtype = graph.dtype(static_cast<onnx::ValueId>(i));
    if (is_floating(dtype)) bytes = std::min(bytes, size_of(dtype));
  }
  return bytes;
}

/// A size that a quarter of the elements are below, of those that are not 0.
double usual_size(const std::vector<double>& values) {
  std::vector<double> sizes;
  for (const double value : values)
    if (value != 0 && std::isfinite(value)) sizes.push_back(std::abs(value));
  if (sizes.empty()) return 0;
  const auto quarter = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 4);
  std::nth_element(sizes.begin(), quarter, sizes.end());
  return *quarter;
}

/// A model that is to be saved, and what it is run with.
class SavedModel {
 public:
  SavedModel(Module& model, const TensorFunction& run, std::span<const Tensor> examples, const OnnxSaving& saving)
      : run_(run), examples_(examples.begin(), examples.end()), saving_(saving), members_(model.named_members()) {
    if (examples_.empty()) raise("[save_onnx] there is no example: a file without inputs has nothing to compute");
    for (const Tensor& example : examples_)
      if (!example.defined()) raise("[save_onnx] an example is undefined");
    for (const auto& [name, parameter] : model.named_parameters()) parameters_.insert(name);
    names_.inputs = names_or(saving.inputs, "input", examples_.size());
    find_free_lengths();
  }

  void save(const std::string& path) {
    const FreeLengths lengths = chosen_lengths();
    std::vector<TracedGraph> graphs;
    for (std::size_t i = 0; i < lengths.runs(); ++i) graphs.push_back(graph_with(lengths.run(i)));
    names_.outputs = names_or(saving_.outputs, "output", graphs.front().outputs.size());
    narrowest_ = narrowest_float(graphs.front());
    check_names();
    onnx::ModelFile model = onnx::file_of(graphs, lengths, names_);
    for (const auto& [name, array] : model.initializers)
      if (!parameters_.contains(name)) model.buffers.insert(name);
    const std::string bytes = onnx::model_bytes(model);
    AtomicFile file(path);
    file.file().write(bytes.data(), bytes.size());
    check(OnnxModel(file.place_until_commit(), {.device = examples_.front().array().device()}), lengths);
    file.commit();
  }

 private:
  void find_free_lengths();
  FreeLengths chosen_lengths() const;
  void check_names() const;
  TracedGraph graph_with(const std::vector<std::int64_t>& lengths) const;
  std::vector<Tensor> outputs_of(std::span<const Tensor> inputs) const;
  std::vector<Tensor> inputs_of(const std::vector<std::int64_t>& lengths) const;
  void check(const OnnxModel&, const FreeLengths&) const;
  void compare(const std::vector<Tensor>& file, const std::vector<Tensor>& model, const std::string& with) const;

  const TensorFunction& run_;
  std::vector<Tensor> examples_;
  const OnnxSaving& saving_;
  NamedTensors members_;
  std::set<std::string> parameters_;
  FileNames names_;
  std::size_t narrowest_ = 8;  // bytes of the narrowest floating type that it computes in
  std::vector<std::pair<std::string, std::int64_t>> lengths_;  // names and values of the free ones
};

void SavedModel::find_free_lengths() {
  if (!saving_.axes.empty() && saving_.axes.size() != examples_.size())
    raise<ShapeError>("[save_onnx] OnnxSaving::axes tells those of {} inputs, and there are {}", saving_.axes.size(),
                      examples_.size());
  for (std::size_t i = 0; i < examples_.size(); ++i) {
    const Shape& shape = examples_[i].shape();
    std::vector<std::string> axes(shape.size());
    if (saving_.axes.empty() && !axes.empty())
      axes.front() = "batch";
    else if (!saving_.axes.empty() && !saving_.axes[i].names().empty())
      axes = saving_.axes[i].names();
    if (axes.size() != shape.size())
      raise<ShapeError>(
          "[save_onnx] input \"{}\", {}, has {} axes, and OnnxSaving::axes names {}: \"\" stands for one "
          "whose length stays",
          names_.inputs[i], to_string(shape), shape.size(), axes.size());
    auto& places = names_.axes.emplace_back(shape.size());
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      if (axes[axis].empty()) continue;
      if (axes[axis] == "?" || axes[axis].find_first_not_of("0123456789") == std::string::npos)
        raise<ShapeError>("[save_onnx] \"{}\" is no name of an axis of input \"{}\"", axes[axis], names_.inputs[i]);
      if (shape[axis] == 0)
        raise<ShapeError>("[save_onnx] input \"{}\", {}, is empty", names_.inputs[i], to_string(shape));
      const std::int64_t length = shape[axis];
      auto found = std::ranges::find(lengths_, axes[axis], &std::pair<std::string, std::int64_t>::first);
      places[axis] = static_cast<std::size_t>(found - lengths_.begin());
      if (found == lengths_.end())
        lengths_.emplace_back(axes[axis], length);
      else if (found->second != length)
        raise<ShapeError>(
            "[save_onnx] axis {} of input \"{}\", {}, is named \"{}\" as one of length {}: axes of one name "
            "have one length",
            axis, names_.inputs[i], to_string(shape), axes[axis], found->second);
    }
  }
}

// Each free length with the first values that the model takes.
FreeLengths SavedModel::chosen_lengths() const {
  std::vector<std::int64_t> example;
  for (const auto& [name, length] : lengths_) example.push_back(length);
  graph_with(example);
  for (std::int64_t& length : example) length = std::max<std::int64_t>(2, length);  // where rows are not all there are
  std::vector<FreeLength> chosen;
  for (std::size_t i = 0; i < example.size(); ++i) {
    const auto& [name, length] = lengths_[i];
    std::string reason;
    for (const FreeLength& values : onnx::candidates(name, example[i])) {
      try {
        for (const std::int64_t value : {values.first, values.far, values.last}) {
          std::vector<std::int64_t> run = example;
          run[i] = value;
          graph_with(run);
        }
        chosen.push_back(values);
        break;
      } catch (const std::exception& error) {  // a model may throw its own
        if (reason.empty()) reason = error.what();
      }
    }
    if (chosen.size() == i)
      raise(
          "[save_onnx] \"{}\" is no free length: with another than {} the model fails, {}. Name no axis so: \"\" in "
          "OnnxSaving::axes",
          name, length, reason);
  }
  return FreeLengths(std::move(chosen));
}

void SavedModel::check_names() const {
  std::set<std::string> seen;
  const auto check = [&](const std::string& name) {
    if (name.empty() || !seen.insert(name).second)
      raise("[save_onnx] \"{}\" is {}", name, name.empty() ? "no name" : "the name of two inputs, outputs or members");
  };
  for (const std::string& name : names_.inputs) check(name);
  for (const std::string& name : names_.outputs) check(name);
  for (const auto& [name, member] : members_) check(name);
}

// The examples, cut or repeated.
std::vector<Tensor> SavedModel::inputs_of(const std::vector<std::int64_t>& lengths) const {
  const NoGrad off;
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < examples_.size(); ++i) {
    Tensor input = examples_[i].detach();
    for (std::size_t axis = 0; axis < input.rank(); ++axis) {
      if (!names_.axes[i][axis]) continue;
      const std::int64_t length = lengths[*names_.axes[i][axis]];
      const auto place = static_cast<std::int64_t>(axis);
      const Tensor once = input;
      while (input.length(place) < length) input = concatenate({input, once}, place);
      input = slice(input, place, 0, length);
    }
    inputs.emplace_back(input.array().copy());
  }
  return inputs;
}

// The model's outputs. What fails on the device fails here, not later.
std::vector<Tensor> SavedModel::outputs_of(std::span<const Tensor> inputs) const {
  const Device device = inputs.front().array().device();
  try {
    std::vector<Tensor> outputs = run_(inputs);
    synchronize(device);
    for (const Tensor& output : outputs)
      if (!output.defined()) raise("[save_onnx] an output of the model is undefined");
    return outputs;
  } catch (...) {
    try {
      synchronize(device);
    } catch (const std::exception&) {  // the first error is told
    }
    throw;
  }
}

TracedGraph SavedModel::graph_with(const std::vector<std::int64_t>& lengths) const {
  TracedGraph graph;
  const std::vector<Tensor> inputs = inputs_of(lengths);
  onnx::TracedMemory memory(graph);
  onnx::KernelNodes nodes(graph, memory);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Array& array = inputs[i].array();
    memory.name(names_.inputs[i], array, graph.add_input(array.dtype(), array.shape()));
  }
  for (const auto& [name, member] : members_)
    memory.name(name, member.array(), graph.add_constant(name, member.array()));
  std::vector<Tensor> outputs;
  {
    const Inference inference;
    const ComposedCalls composed;
    const onnx::TraceScope scope(inputs.front().array().device(), nodes, memory);
    outputs = outputs_of(inputs);
  }
  if (outputs.empty()) raise("[save_onnx] the model has no output");
  for (const Tensor& output : outputs) graph.outputs.push_back(memory.read(output.array()));
  return graph;
}

// With inputs that no run had: what was taken for a constant, or a branch of the program, shows.
void SavedModel::check(const OnnxModel& file, const FreeLengths& lengths) const {
  const Inference inference;
  const auto check_with = [&](const std::vector<Tensor>& inputs, const std::string& with, bool may_fail) {
    std::vector<Tensor> expected;
    try {
      expected = outputs_of(inputs);
    } catch (const std::exception&) {
      if (may_fail) return;
      throw;
    }
    std::vector<Tensor> found;
    try {
      found = file.run(inputs);
      synchronize(inputs.front().array().device());
    } catch (const Error& error) {
      raise("[save_onnx] with {} the file fails where the model does not: {}", with, error.what());
    }
    compare(found, expected, with);
  };
  check_with(detached(examples_), "the example", false);
  for (std::size_t i = 0; i < lengths.runs(); ++i) {
    const std::vector<Tensor> inputs = inputs_of(lengths.run(i));
    const std::string run = lengths.describe(lengths.run(i));
    if (!lengths_.empty()) check_with(inputs, run, false);
    check_with(changed(inputs), "other values and " + run, true);
  }
  std::vector<std::int64_t> ones = lengths.run(0);
  for (std::int64_t& length : ones) {
    const std::int64_t before = std::exchange(length, 1);
    check_with(inputs_of(ones), lengths.describe(ones), true);
    length = before;
  }
}

// Operators of ONNX are those of the library but for the order of sums and for narrow types, which these widen. Large
// elements, as those of a mask, do not excuse others.
void SavedModel::compare(const std::vector<Tensor>& file, const std::vector<Tensor>& model,
                         const std::string& with) const {
  if (model.size() != file.size())
    raise("[save_onnx] with {} the model has {} outputs, and {} before", with, model.size(), file.size());
  const double allowed = narrowest_ == 8 ? 1e-9 : narrowest_ == 4 ? 1e-4 : 3e-2;
  for (std::size_t i = 0; i < model.size(); ++i) {
    const DType dtype = model[i].dtype();
    if (file[i].dtype() != dtype || file[i].shape() != model[i].shape())
      raise("[save_onnx] with {} output \"{}\" of the file would be {} {}, and the model's is {} {}", with,
            names_.outputs[i], to_string(file[i].dtype()), to_string(file[i].shape()), to_string(dtype),
            to_string(model[i].shape()));
    const auto fail = [&](std::size_t place, const auto& found, const auto& expected) {
      raise(
          "[save_onnx] with {} element {} of output \"{}\" would be {} in the file, and is {} in the model, which "
          "computes something else from call to call, takes a branch, or computes by other means than operations",
          with, place, names_.outputs[i], found, expected);
    };
    if (!is_floating(dtype)) {
      const auto found = file[i].array().cast(DType::i64).to_vector<std::int64_t>();
      const auto expected = model[i].array().cast(DType::i64).to_vector<std::int64_t>();
      for (std::size_t j = 0; j < expected.size(); ++j)
        if (found[j] != expected[j]) fail(j, found[j], expected[j]);
      continue;
    }
    const auto found = file[i].array().cast(DType::f64).to_vector<double>();
    const auto expected = model[i].array().cast(DType::f64).to_vector<double>();
    const double scale = usual_size(expected);
    for (std::size_t j = 0; j < expected.size(); ++j) {
      const bool same = found[j] == expected[j] || (std::isnan(found[j]) && std::isnan(expected[j])) ||
                        std::abs(found[j] - expected[j]) <= allowed * (scale + std::abs(expected[j]));
      if (!same) fail(j, found[j], expected[j]);
    }
  }
}

}  // namespace

void save_onnx(const std::string& path, Layer& model, const Tensor& example, const OnnxSaving& saving) {
  const Tensor examples[] = {example};
  save_onnx(
      path, model, [&](std::span<const Tensor> inputs) { return std::vector<Tensor>{model(inputs.front())}; }, examples,
      saving);
}

void save_onnx(const std::string& path, Module& model, const TensorFunction& run, std::span<const Tensor> examples,
               const OnnxSaving& saving) {
  SavedModel(model, run, examples, saving).save(path);
}

}  // namespace tutti
