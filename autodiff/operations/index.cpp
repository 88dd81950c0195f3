// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/indexing.h>

#include <tutti/autodiff/line_gather.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operation_scope.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/promotion.h>
#include <tutti/autodiff/strided_view.h>
#include <tutti/backend/error.h>
#include <tutti/backend/index_meaning.h>

#include <algorithm>
#include <optional>
#include <string>

namespace tutti {

namespace {

constexpr std::string_view kAlongAxis = "elements of its axis";

/// Entries worked out against a shape.
struct Selection {
  StridedView view;
  std::optional<Tensor> positions;  // along `axis` of the view
  std::int64_t axis = 0;
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
    if (selection_.positions)
      raise<ShapeError>("[{}] two entries are tensors: one may be; take one after the other", operation_);
    if (positions.dtype() == DType::boolean)
      raise<DTypeError>(
          "[{}] a bool tensor selects a number of elements that is not known beforehand: use where(), masked_fill() or "
          "masked_select()",
          operation_);
    selection_.positions = positions;
    selection_.axis = static_cast<std::int64_t>(selection_.view.axes.size());
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

}  // namespace

Tensor Tensor::at(std::span<const Index> entries) const {
  const OperationScope scope("index", *this);
  const Selection selection = Selector("index", shape()).select(entries);
  const Tensor view = take_view("index", *this, selection.view);
  if (!selection.positions) return view;
  const IndexMeaning meaning{.operation = "index",
                             .index = "position",
                             .range = kAlongAxis,
                             .shape = selection.positions->shape(),
                             .from_back = true};
  const IndexScope positions(meaning);
  return take(view, *selection.positions, selection.axis);
}

Tensor Tensor::operator[](const Index& entry) const { return at({&entry, 1}); }
Tensor Tensor::operator[](std::initializer_list<Index> entries) const { return at({entries.begin(), entries.size()}); }

Tensor slice_assign(const Tensor& x, std::span<const Index> entries, const Tensor& value) {
  const OperationScope scope("slice_assign", x, value);
  const Selection selection = Selector("slice_assign", x.shape()).select(entries);
  if (selection.positions) raise<DTypeError>("[slice_assign] an entry is a tensor: use scatter_add() or where()");
  const Shape shown = selection.view.of(x.array()).shape();
  return assign_view(x, selection.view, broadcast_to(in_dtype_of(x, "slice_assign", value), shown));
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
  if (!is_integral(positions.dtype()))
    raise<DTypeError>("[take] positions are {}: they must be integers", to_string(positions.dtype()));
  const std::size_t place = normalize_axis("take", axis, x.rank());
  if (x.shape()[place] == 0 && positions.size() > 0)
    raise<ShapeError>("[take] axis {} of {} has no elements", axis, to_string(x.shape()));
  const IndexMeaning meaning{
      .operation = "take", .index = "position", .range = kAlongAxis, .shape = positions.shape(), .from_back = true};
  const IndexScope along_axis(meaning);
  const Tensor given = cast(positions, DType::i64);
  const Tensor whole = where(given < 0, given + x.shape()[place], given);
  if (place == 0) return embedding(x, whole);
  return gather_lines(x, place, whole);
}

Tensor pad(const Tensor& x, std::span<const Padding> widths, const Scalar& value) {
  const OperationScope scope("pad", x);
  if (widths.size() != x.rank())
    raise<ShapeError>("[pad] {} pairs of widths for the {} axes of {}", widths.size(), x.rank(), to_string(x.shape()));
  Shape shape = x.shape();
  StridedView view;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    const auto [before, after] = widths[axis];
    if (before < 0 || after < 0)
      raise<ShapeError>("[pad] widths {}, {} of axis {}: they must not be negative; use slice", before, after, axis);
    view.axes.push_back({shape[axis], 1, static_cast<std::int64_t>(axis)});
    view.first.push_back(before);
    shape[axis] += before + after;
  }
  require_fit("pad", value, x.dtype());
  return assign_view(Tensor(Array::full(shape, value, x.dtype(), x.device())), view, x);
}

}  // namespace tutti
