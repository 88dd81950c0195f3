// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/onnx/export/traced_graph.h>
#include <tutti/onnx/export/view_plan.h>

#include <optional>
#include <vector>

namespace tutti::onnx {

/// A value that fills a box, and has its shape.
struct Part {
  Box box;
  ValueId value;
};

// Operators that read parts of a value of the plan's or box' shape, or make one of parts.

ValueId sliced(TracedGraph&, ValueId, const Box&);               ///< elements of the box, in its shape
ValueId scattered(TracedGraph&, ValueId, const ScatteredPlan&);  ///< elements of the plan, in the view's shape
/// The value with the part in place of what is in its box.
ValueId replaced(TracedGraph&, ValueId, const Part&);
/// The value with the elements of a view, in its shape, in place of those of the plan.
ValueId scattered_into(TracedGraph&, ValueId, const ScatteredPlan&, ValueId elements);
/// All parts, of boxes of one shape, where they follow each other along an axis from end to end; none: they do not.
std::optional<ValueId> joined_parts(TracedGraph&, const std::vector<Part>&);
/// The part, with a number around it.
ValueId padded(TracedGraph&, const Part&, const Array& number);

/// True if each element is in exactly one of the parts, of boxes of one shape.
bool covers(const std::vector<Part>&);

}  // namespace tutti::onnx
