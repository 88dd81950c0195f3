// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/tensor/indexing.h>

#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/padded_shape.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/operations/strided_view.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/index_meaning.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tutti {

namespace {

constexpr std::string_view kAlongAxis = "elements of its axis";

/// Entries worked out against a shape.
struct Selection {
  StridedView view;
  struct Positions {
    Tensor given;
    std::size_t axis;  // of the view
  };
  std::vector<Positions> positions;
};

class Selector {
 public:
  Selector(std::string_view operation, const Shape& shape) : operation_(operation), shape_(shape) {
    selection_.view.first.assign(shape.size(), 0);
  }

  Selection select(std::span<const Index> entries) {
    const auto uses_axis = [](const Index& index) {
      return !std::holds_alternative<NewAxis>(index.entry()) && !std::holds_alternative<Ellipsis>(index.entry());
    };
    const auto named = static_cast<std::size_t>(std::count_if(entries.begin(), entries.end(), uses_axis));
    if (named > shape_.size())
      raise<ShapeError>("[{}] {} entries for the {} axes of {}", operation_, named, shape_.size(), to_string(shape_));
    rest_ = shape_.size() - named;
    for (const Index& index : entries) std::visit([&](const auto& entry) { add(entry); }, index.entry());
    while (axis_ < shape_.size()) add(Range{});
    return std::move(selection_);
  }

 private:
  void add(std::int64_t position) {
    const std::int64_t length = shape_[axis_];
    if (position < -length || position >= length)
      raise<ShapeError>("[{}] position {} is outside axis {} of {}", operation_, position, axis_, to_string(shape_));
    selection_.view.first[axis_++] = position < 0 ? position + length : position;
  }
  void add(const Range& range) {
    const std::int64_t length = shape_[axis_];
    if (range.step < 1) raise<ShapeError>("[{}] the step of a range must be positive, got {}", operation_, range.step);
    const auto place = [&](std::int64_t position) {
      return std::clamp<std::int64_t>(position < 0 ? position + length : position, 0, length);
    };
    const std::int64_t begin = place(range.begin.value_or(0));
    const std::int64_t end = std::max(begin, place(range.end.value_or(length)));
    const std::int64_t count = (end - begin) / range.step + ((end - begin) % range.step != 0 ? 1 : 0);
    selection_.view.first[axis_] = begin;
    selection_.view.axes.push_back({count, range.step, static_cast<std::int64_t>(axis_++)});
  }
  void add(NewAxis) { selection_.view.axes.push_back({1}); }
  void add(Ellipsis) {
    if (seen_ellipsis_) raise<ShapeError>("[{}] ellipsis stands twice", operation_);
    seen_ellipsis_ = true;
    for (; rest_ > 0; --rest_) add(Range{});
  }
  void add(const Tensor& positions) {
    if (positions.dtype() == DType::boolean)
      raise<DTypeError>(
          "[{}] a bool tensor selects a number of elements that is not known beforehand: use where(), masked_fill() or "
          "masked_select()",
          operation_);
    selection_.positions.push_back({positions, selection_.view.axes.size()});
    add(Range{});
  }

  std::string_view operation_;
  const Shape& shape_;
  Selection selection_;
  std::size_t axis_ = 0;  // of the array: the next to be named
  std::size_t rest_ = 0;  // axes that the ellipsis stands for
  bool seen_ellipsis_ = false;
};

// A copy of x with `value`, of the view's shape and x's dtype, where the view shows it.
Tensor assign_view(const Tensor& x, const StridedView& view, const Tensor& value) {
  Array result = x.array().copy();
  if (value.size() > 0) view.of(result).copy_from(value.array());
  const Tensor inputs[] = {x, value};
  return record("slice_assign", std::move(result), inputs, [&] {
    return [view](const auto&, const Tensor& dy, InputGradients& gradients) {
      if (gradients.wanted(0)) {
        const Tensor shown = take_view("slice_assign", dy, view);
        gradients.set(0, assign_view(dy, view, Tensor(Array::zeros(shown.shape(), dy.dtype(), dy.device()))));
      }
      if (gradients.wanted(1)) gradients.set(1, take_view("slice_assign", dy, view));
    };
  });
}

IndexMeaning position_along_axis(std::string_view operation, const Tensor& positions) {
  return {
      .operation = operation, .index = "position", .range = kAlongAxis, .shape = positions.shape(), .from_back = true};
}

// At places that are known to lie within the axis, or are checked by the kernel.
Tensor take_places(const Tensor& x, const Tensor& places, std::size_t axis) {
  return axis == 0 ? embedding(x, places) : gather_lines(x, axis, places);
}

// NumPy's rule: positions are broadcast, and their axes stand where the first was, or in front of all if others lie
// between them. The axes are joined to one, along which each element has one place.
Tensor take_together(std::string_view operation, Tensor x, std::vector<Selection::Positions> positions) {
  bool adjacent = true;
  for (std::size_t i = 1; i < positions.size(); ++i)
    adjacent = adjacent && positions[i].axis == positions[i - 1].axis + 1;
  if (!adjacent) {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      x = moveaxis(x, static_cast<std::int64_t>(positions[i].axis), static_cast<std::int64_t>(i));
      positions[i].axis = i;
    }
  }
  Tensor together;
  for (const auto& [given, axis] : positions) {
    const std::int64_t length = x.shape()[axis];
    const IndexMeaning meaning = position_along_axis(operation, given);
    const IndexScope along(meaning);
    const Tensor places = take(Tensor(Array::arange(length, DType::i64, x.device())), given, 0);  // checks each
    together = together.defined() ? together * length + places : places;
  }
  const std::size_t first = positions.front().axis;
  Shape shape = x.shape();
  for (std::size_t i = 1; i < positions.size(); ++i) {
    shape[first] *= shape[first + 1];
    shape.erase(first + 1);
  }
  return take_places(reshape(x, shape), together, first);
}

Tensor select(std::string_view operation, const Tensor& x, std::span<const Index> entries) {
  const Selection selection = Selector(operation, x.shape()).select(entries);
  Tensor view = take_view(operation, x, selection.view);
  if (selection.positions.empty()) return view;
  if (selection.positions.size() > 1) return take_together(operation, std::move(view), selection.positions);
  const auto& [given, axis] = selection.positions.front();
  const IndexMeaning meaning = position_along_axis(operation, given);
  const IndexScope along(meaning);
  return take(view, given, static_cast<std::int64_t>(axis));
}

}  // namespace

Tensor Tensor::at(std::span<const Index> entries) const {
  const OperationScope scope("index", *this);
  return select("index", *this, entries);
}

Tensor Tensor::brackets(std::span<const Index> entries, bool writable) const {
  Tensor shown = at(entries);
  const auto is_tensor = [](const Index& index) { return std::holds_alternative<Tensor>(index.entry()); };
  // A literal's array is none of its value, and under NoGrad the view of what a graph made knows nothing of the graph.
  if (writable && !is_weak_scalar() && !node() && std::ranges::none_of(entries, is_tensor)) shown.mark_writable();
  return shown;
}

Tensor Tensor::operator[](const Index& entry) const& { return brackets({&entry, 1}, true); }
Tensor Tensor::operator[](const Index& entry) const&& { return brackets({&entry, 1}, is_writable()); }
Tensor Tensor::operator[](std::initializer_list<Index> entries) const& {
  return brackets({entries.begin(), entries.size()}, true);
}
Tensor Tensor::operator[](std::initializer_list<Index> entries) const&& {
  return brackets({entries.begin(), entries.size()}, is_writable());
}

Tensor slice_assign(const Tensor& x, std::span<const Index> entries, const Tensor& given) {
  const OperationScope scope("slice_assign", x, given);
  const Selection selection = Selector("slice_assign", x.shape()).select(entries);
  const Tensor value = in_dtype_of(x, "slice_assign", given);
  if (selection.positions.empty())
    return assign_view(x, selection.view, broadcast_to(value, selection.view.of(x.array()).shape()));
  const Tensor numbers(Array::arange(x.size(), DType::i64, x.device()));
  const Tensor places = select("slice_assign", reshape(numbers, x.shape()), entries);
  const Tensor updates = flatten(broadcast_to(value, places.shape()));
  return reshape(scatter_places(flatten(x), 0, flatten(places), updates), x.shape());
}

Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step) {
  const OperationScope scope("slice", x);
  const Array shown = x.array().slice(axis, begin, end, step);  // checks them
  const std::size_t place = normalize_axis("slice", axis, x.rank());
  StridedView view;
  view.first.assign(x.rank(), 0);
  view.first[place] = begin < 0 ? begin + x.shape()[place] : begin;
  for (std::size_t i = 0; i < x.rank(); ++i)
    view.axes.push_back({shown.shape()[i], i == place ? step : 1, static_cast<std::int64_t>(i)});
  return take_view("slice", x, view);
}

Tensor take(const Tensor& x, const Tensor& positions, std::int64_t axis) {
  const OperationScope scope("take", x, positions);
  const std::size_t place = normalize_axis("take", axis, x.rank());
  const Tensor places = places_of("take", positions, x.shape()[place]);
  if (x.shape()[place] == 0 && positions.size() > 0)
    raise<ShapeError>("[take] axis {} of {} has no elements", axis, to_string(x.shape()));
  const IndexMeaning meaning = position_along_axis("take", positions);
  const IndexScope along(meaning);
  return take_places(x, places, place);
}

Tensor pad(const Tensor& x, std::span<const Padding> widths, const Scalar& value) {
  const OperationScope scope("pad", x);
  const Shape shape = padded_shape(x.shape(), widths);
  StridedView view;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    view.axes.push_back({x.shape()[axis], 1, static_cast<std::int64_t>(axis)});
    view.first.push_back(widths[axis].before);
  }
  require_fit("pad", value, x.dtype());
  return assign_view(Tensor(Array::full(shape, value, x.dtype(), x.device())), view, x);
}

}  // namespace tutti
