// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/save_onnx.h>

#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/scope.h>
#include <tutti/backend/raise.h>
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
#include <map>
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

/// A model that is to be saved, and what it is run with.
class SavedModel {
 public:
  SavedModel(Module& model, const TensorFunction& run, std::span<const Tensor> examples, const OnnxSaving& saving)
      : run_(run), examples_(examples.begin(), examples.end()), saving_(saving), members_(model.named_members()) {
    if (examples_.empty()) raise("[save_onnx] there is no example: a file without inputs has nothing to compute");
    for (const Tensor& example : examples_)
      if (!example.defined()) raise("[save_onnx] an example is undefined");
    names_.inputs = names_or(saving.inputs, "input", examples_.size());
    find_free_lengths();
  }

  void save(const std::string& path) {
    const FreeLengths lengths = chosen_lengths();
    std::vector<Run> runs;
    std::vector<TracedGraph> graphs;
    for (std::size_t i = 0; i < lengths.runs(); ++i) {
      runs.push_back(run_with(lengths.run(i)));
      graphs.push_back(std::move(runs.back().graph));
      if (runs[i].outputs.size() != runs[0].outputs.size())
        raise("[save_onnx] with other lengths the model has {} outputs, and {} before", runs[i].outputs.size(),
              runs[0].outputs.size());
    }
    names_.outputs = names_or(saving_.outputs, "output", runs.front().outputs.size());
    check_names();
    const std::string bytes = onnx::model_bytes(onnx::file_of(graphs, lengths, names_));
    AtomicFile file(path);
    file.file().write(bytes.data(), bytes.size());
    const OnnxModel read(file.place_until_commit(), {.device = examples_.front().array().device()});
    const Inference inference;
    for (const Run& run : runs) compare(read.run(run.inputs), run.outputs);
    file.commit();
  }

 private:
  struct Run {
    TracedGraph graph;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
  };

  void find_free_lengths();
  FreeLengths chosen_lengths() const;
  void check_names() const;
  Run run_with(const std::vector<std::int64_t>& lengths) const;
  std::vector<Tensor> inputs_of(const std::vector<std::int64_t>& lengths) const;
  void compare(const std::vector<Tensor>& file, const std::vector<Tensor>& model) const;

  const TensorFunction& run_;
  std::vector<Tensor> examples_;
  const OnnxSaving& saving_;
  NamedTensors members_;
  FileNames names_;
  std::vector<std::pair<std::string, std::int64_t>> lengths_;  // names and values of the free ones
};

void SavedModel::find_free_lengths() {
  if (saving_.axes && saving_.axes->size() != examples_.size())
    raise<ShapeError>("[save_onnx] axes are named of {} inputs, and there are {}", saving_.axes->size(),
                      examples_.size());
  for (std::size_t i = 0; i < examples_.size(); ++i) {
    const Shape& shape = examples_[i].shape();
    std::vector<std::string> axes(shape.size());
    if (saving_.axes)
      axes = (*saving_.axes)[i];
    else if (!axes.empty())
      axes.front() = "batch";
    if (axes.size() != shape.size())
      raise<ShapeError>("[save_onnx] input \"{}\", {}, has {} axes, and {} are named", names_.inputs[i],
                        to_string(shape), shape.size(), axes.size());
    auto& places = names_.axes.emplace_back(shape.size());
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      if (axes[axis].empty()) continue;
      if (shape[axis] == 0)
        raise<ShapeError>("[save_onnx] input \"{}\", {}, is empty", names_.inputs[i], to_string(shape));
      const std::int64_t length = std::max<std::int64_t>(2, shape[axis]);
      auto found = std::ranges::find(lengths_, axes[axis], &std::pair<std::string, std::int64_t>::first);
      places[axis] = static_cast<std::size_t>(found - lengths_.begin());
      if (found == lengths_.end())
        lengths_.emplace_back(axes[axis], length);
      else if (found->second != length)
        raise<ShapeError>("[save_onnx] examples have lengths {} and {} along axes that are both named \"{}\"",
                          found->second, length, axes[axis]);
    }
  }
}

// Each free length with the first values that the model takes.
FreeLengths SavedModel::chosen_lengths() const {
  std::vector<std::int64_t> example;
  for (const auto& [name, length] : lengths_) example.push_back(length);
  run_with(example);
  std::vector<FreeLength> chosen;
  for (std::size_t i = 0; i < example.size(); ++i) {
    const auto& [name, length] = lengths_[i];
    std::string reason;
    for (const FreeLength& values : onnx::candidates(name, length)) {
      try {
        for (const std::int64_t value : {values.first, values.far, values.last}) {
          std::vector<std::int64_t> run = example;
          run[i] = value;
          if (run != example) run_with(run);
        }
        chosen.push_back(values);
        break;
      } catch (const Error& error) {
        if (reason.empty()) reason = error.what();
      }
    }
    if (chosen.size() == i)
      raise(
          "[save_onnx] \"{}\" is no free length: with another than {} the model fails, {}. Name no axis so "
          "(OnnxSaving::axes)",
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

SavedModel::Run SavedModel::run_with(const std::vector<std::int64_t>& lengths) const {
  Run run;
  run.inputs = inputs_of(lengths);
  onnx::TracedMemory memory(run.graph);
  onnx::KernelNodes nodes(run.graph, memory);
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    const Array& array = run.inputs[i].array();
    memory.name(names_.inputs[i], array, run.graph.add_input(array.dtype(), array.shape()));
  }
  for (const auto& [name, member] : members_)
    if (member.array().is_contiguous()) memory.name(name, member.array(), run.graph.add_constant(name, member.array()));
  {
    const Inference inference;
    const onnx::TraceScope scope(run.inputs.front().array().device(), nodes, memory);
    run.outputs = run_(run.inputs);
  }
  if (run.outputs.empty()) raise("[save_onnx] the model has no output");
  for (const Tensor& output : run.outputs) {
    if (!output.defined()) raise("[save_onnx] an output of the model is undefined");
    run.graph.outputs.push_back(memory.read(output.array()));
  }
  return run;
}

// Operators of ONNX are those of the library but for the order of sums and for narrow types, which these widen.
void SavedModel::compare(const std::vector<Tensor>& file, const std::vector<Tensor>& model) const {
  for (std::size_t i = 0; i < model.size(); ++i) {
    const DType dtype = model[i].dtype();
    const auto values = [](const Tensor& x) { return x.array().cast(DType::f64).to_vector<double>(); };
    if (file[i].dtype() != dtype || file[i].shape() != model[i].shape())
      raise(
          "[save_onnx] output \"{}\" of the file would be {} {}, and the model's is {} {}: this is an error of the "
          "library",
          names_.outputs[i], to_string(file[i].dtype()), to_string(file[i].shape()), to_string(dtype),
          to_string(model[i].shape()));
    const std::vector<double> found = values(file[i]);
    const std::vector<double> expected = values(model[i]);
    double largest = 0;
    for (const double each : expected)
      if (std::isfinite(each)) largest = std::max(largest, std::abs(each));
    const double allowed = !is_floating(dtype) ? 0.0 : dtype == DType::f64 ? 1e-9 : dtype == DType::f32 ? 1e-4 : 3e-2;
    for (std::size_t j = 0; j < expected.size(); ++j) {
      const bool same = found[j] == expected[j] || (std::isnan(found[j]) && std::isnan(expected[j])) ||
                        std::abs(found[j] - expected[j]) <= allowed * largest;
      if (!same)
        raise(
            "[save_onnx] element {} of output \"{}\" would be {} in the file, and is {} in the model: this is an "
            "error of the library, or the model is not the same from call to call",
            j, names_.outputs[i], found[j], expected[j]);
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
