// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/onnx/export/free_lengths.h>
#include <tutti/onnx/export/traced_graph.h>
#include <tutti/onnx/format/model_file.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti::onnx {

/// Names of a file's inputs and outputs, and of the free lengths among the inputs' axes.
struct FileNames {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::vector<std::optional<std::size_t>>> axes;  ///< place of the free length of each input's each axis
};

/// The file of a model that was run once for each of the lengths' runs. Nodes whose results nobody uses are left out.
/// Throws Error, naming what differs, where the runs called other operators, or a number is no function of the lengths
/// that LengthFormula can tell.
ModelFile file_of(std::span<const TracedGraph> runs, const FreeLengths&, const FileNames&);

}  // namespace tutti::onnx
