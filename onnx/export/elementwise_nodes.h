// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/elementwise/call.h>
#include <tutti/onnx/export/traced_graph.h>

#include <span>

namespace tutti::onnx {

/// Adds what computes an elementwise operation of operands of one type, whose shapes broadcast. Throws Error naming the
/// operation for one that ONNX's operators do not make up.
ValueId add_elementwise(TracedGraph&, const ElementwiseCall&, std::span<const ValueId> inputs);

}  // namespace tutti::onnx
