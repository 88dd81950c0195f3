// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/export/view_nodes.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

namespace tutti::onnx {

namespace {

/// Axes of a view, in the order in which the plan has them.
std::vector<std::int64_t> order_of(const ScatteredPlan& plan) {
  std::vector<std::int64_t> order = plan.outer_axes;
  order.insert(order.end(), plan.inner_axes.begin(), plan.inner_axes.end());
  return order;
}

ValueId replaced_from(TracedGraph& graph, ValueId value, const Part& part, std::size_t axis) {
  const Box& box = part.box;
  while (axis < box.of.size() && box.lengths[axis] == box.of[axis]) ++axis;
  if (axis == box.of.size()) return part.value;
  const std::int64_t begin = box.begins[axis];
  const std::int64_t end = begin + box.lengths[axis];
  std::vector<ValueId> parts;
  if (begin > 0) parts.push_back(graph.slice(value, axis, 0, begin));
  parts.push_back(replaced_from(graph, graph.slice(value, axis, begin, end), part, axis + 1));
  if (end < box.of[axis]) parts.push_back(graph.slice(value, axis, end, box.of[axis]));
  return graph.concatenate(parts, axis);
}

/// The axis along which the boxes, each whole along all others, follow each other from end to end, and their order.
struct Row {
  std::size_t axis;
  std::vector<std::size_t> order;
};
std::optional<Row> row_of(const std::vector<Part>& parts) {
  const Shape& shape = parts.front().box.of;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const bool fits = std::ranges::all_of(parts, [&](const auto& part) {
      for (std::size_t other = 0; other < shape.size(); ++other)
        if (other != axis && part.box.lengths[other] != shape[other]) return false;
      return true;
    });
    if (!fits) continue;
    Row row{axis, std::vector<std::size_t>(parts.size())};
    std::iota(row.order.begin(), row.order.end(), 0);
    std::ranges::sort(row.order, {}, [&](std::size_t i) { return parts[i].box.begins[axis]; });
    std::int64_t end = 0;
    const bool follow = std::ranges::all_of(row.order, [&](std::size_t i) {
      const Box& box = parts[i].box;
      return std::exchange(end, box.begins[axis] + box.lengths[axis]) == box.begins[axis];
    });
    if (follow && end == shape[axis]) return row;
  }
  return std::nullopt;
}

bool meet(const Box& a, const Box& b) {
  for (std::size_t axis = 0; axis < a.of.size(); ++axis)
    if (a.begins[axis] + a.lengths[axis] <= b.begins[axis] || b.begins[axis] + b.lengths[axis] <= a.begins[axis])
      return false;
  return true;
}

}  // namespace

ValueId sliced(TracedGraph& graph, ValueId value, const Box& box) {
  std::vector<std::int64_t> begins, ends, axes, steps;
  Shape to = box.of;
  bool has_steps = false;
  for (std::size_t axis = 0; axis < box.of.size(); ++axis) {
    const std::int64_t step = box.steps[axis];
    const std::int64_t end = box.begins[axis] + (box.lengths[axis] - 1) * step + 1;
    if (box.lengths[axis] == box.of[axis]) continue;
    begins.push_back(box.begins[axis]);
    ends.push_back(end - 1 + step >= box.of[axis] ? TracedGraph::kToTheEnd : end);
    axes.push_back(static_cast<std::int64_t>(axis));
    steps.push_back(step);
    has_steps = has_steps || step != 1;
    to[axis] = box.lengths[axis];
  }
  if (axes.empty()) return value;
  std::vector<Operand> operands{value, numbers(begins), numbers(ends), numbers(axes)};
  if (has_steps) operands.emplace_back(numbers(steps));
  return graph.add("Slice", std::move(operands), graph.dtype(value), to);
}

ValueId scattered(TracedGraph& graph, ValueId value, const ScatteredPlan& plan) {
  value = sliced(graph, graph.reshape(value, plan.box.of), plan.box);
  Shape shape = graph.shape(value);
  const std::size_t last = shape.size() - 1;
  shape.erase(last);
  for (const std::int64_t length : plan.inner) shape.push_back(length);
  const ValueId positions = graph.add_constant("", Array::from(plan.positions, plan.inner, cpu()));
  value = graph.add("Gather", {value, positions}, graph.dtype(value), shape,
                    {integer_attribute("axis", static_cast<std::int64_t>(last))});
  // To the view's order of axes.
  const std::vector<std::int64_t> order = order_of(plan);
  std::vector<std::int64_t> axes(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    axes[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return graph.transpose(value, axes);
}

ValueId replaced(TracedGraph& graph, ValueId value, const Part& part) { return replaced_from(graph, value, part, 0); }

ValueId scattered_into(TracedGraph& graph, ValueId value, const ScatteredPlan& plan, ValueId elements) {
  const ValueId all = graph.reshape(value, plan.box.of);
  const auto count = static_cast<std::int64_t>(plan.positions.size());
  Shape shape = plan.box.lengths;
  const std::size_t last = shape.size() - 1;
  shape[last] = count;
  const ValueId updates = graph.reshape(graph.transpose(elements, order_of(plan)), shape);
  const ValueId positions = graph.add_constant("", Array::from(plan.positions, {count}, cpu()));
  const ValueId changed =
      graph.add("ScatterElements", {sliced(graph, all, plan.box), graph.expand(positions, shape), updates},
                graph.dtype(value), plan.box.lengths, {integer_attribute("axis", static_cast<std::int64_t>(last))});
  return replaced(graph, all, {plan.box, changed});
}

std::optional<ValueId> joined_parts(TracedGraph& graph, const std::vector<Part>& parts) {
  const std::optional<Row> row = row_of(parts);
  if (!row) return std::nullopt;
  std::vector<ValueId> ordered;
  for (const std::size_t i : row->order) ordered.push_back(parts[i].value);
  return graph.concatenate(ordered, row->axis);
}

ValueId padded(TracedGraph& graph, const Part& part, const Array& number) {
  const Box& box = part.box;
  std::vector<std::int64_t> before(box.of.begin(), box.of.end());
  std::vector<std::int64_t> after = before;
  for (std::size_t axis = 0; axis < box.of.size(); ++axis) {
    before[axis] = box.begins[axis];
    after[axis] = box.of[axis] - box.begins[axis] - box.lengths[axis];
  }
  before.insert(before.end(), after.begin(), after.end());
  return graph.add("Pad", {part.value, numbers(before), graph.add_constant("", number.reshape({}))},
                   graph.dtype(part.value), box.of);
}

bool covers(const std::vector<Part>& parts) {
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    elements += element_count(parts[i].box.lengths);
    for (std::size_t j = 0; j < i; ++j)
      if (meet(parts[i].box, parts[j].box)) return false;
  }
  return !parts.empty() && elements == element_count(parts.front().box.of);
}

}  // namespace tutti::onnx
