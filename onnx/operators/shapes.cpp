// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/operators/operator_call.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace tutti::onnx {

namespace {

using Call = OperatorCall;

Tensor integers_on(const Integers& values, Device device) {
  return Tensor(Array::from(values, {static_cast<std::int64_t>(values.size())}, device));
}

Tensors reshaped(const Call& call) {
  const Tensor& x = call.in(0);
  const Integers told = call.integers("shape", 1).value_or(Integers{});
  const bool allows_zero = call.integer("allowzero", 0) != 0;
  Shape shape;
  for (std::size_t i = 0; i < told.size(); ++i) {
    if (told[i] == 0 && !allows_zero && static_cast<std::int64_t>(i) >= x.dim())
      call.refuse("a length 0 where the input has no axis");
    shape.push_back(told[i] == 0 && !allows_zero ? x.length(static_cast<std::int64_t>(i)) : told[i]);
  }
  return {reshape(x, shape)};
}

Tensors flattened(const Call& call) {
  const Tensor& x = call.in(0);
  std::int64_t axis = call.integer("axis", 1);
  if (axis < -x.dim() || axis > x.dim()) call.refuse("axis " + std::to_string(axis) + " of " + std::to_string(x.dim()));
  if (axis < 0) axis += x.dim();
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  for (std::int64_t i = 0; i < x.dim(); ++i) (i < axis ? rows : columns) *= x.length(i);
  return {reshape(x, {rows, columns})};
}

Tensors squeezed(const Call& call) {
  const auto axes = call.integers("axes", 1);
  if (axes && axes->empty()) return {call.in(0)};
  return {axes ? squeeze(call.in(0), Axes(*axes)) : squeeze(call.in(0))};
}

Tensors unsqueezed(const Call& call) {
  Integers axes = call.integers("axes", 1).value_or(Integers{});
  Tensor y = call.in(0);
  const std::int64_t rank = y.dim() + static_cast<std::int64_t>(axes.size());
  for (std::int64_t& axis : axes) axis = call.from_front(axis, rank);
  std::ranges::sort(axes);
  for (const std::int64_t axis : axes) y = expand_dims(y, axis);
  return {y};
}

Tensors transposed(const Call& call) {
  const Tensor& x = call.in(0);
  Integers axes(x.rank());
  std::iota(axes.rbegin(), axes.rend(), 0);
  return {permute(x, Axes(call.integers("perm").value_or(axes)))};
}

Tensors expanded(const Call& call) {
  const Tensor& x = call.in(0);
  const Integers told = call.values(1);
  const std::size_t rank = std::max(told.size(), x.rank());
  Shape shape;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t wanted = i + told.size() < rank ? 1 : told[i + told.size() - rank];
    const std::int64_t own = i + x.rank() < rank ? 1 : x.length(static_cast<std::int64_t>(i + x.rank() - rank));
    shape.push_back(wanted == 1 ? own : wanted);
  }
  return {broadcast_to(x, shape)};
}

Tensors concatenated(const Call& call) { return {concatenate(call.all(), call.integer("axis", 1))}; }

Tensors split_up(const Call& call) {
  const Tensor& x = call.in(0);
  const std::int64_t axis = call.integer("axis", 0);
  const std::int64_t parts = call.integer("num_outputs", static_cast<std::int64_t>(call.outputs()));
  auto lengths = call.integers("split", 1);
  if (parts < 1 || parts != static_cast<std::int64_t>(call.outputs())) call.refuse("num_outputs is not their number");
  if (!lengths) {
    const std::int64_t length = (x.length(axis) + parts - 1) / parts;
    lengths.emplace();
    std::int64_t left = x.length(axis);
    for (std::int64_t i = 0; i < parts; ++i, left -= lengths->back()) lengths->push_back(std::min(length, left));
  }
  return split(x, *lengths, axis);
}

/// Along one axis, as NumPy's: ends are cut, steps may be negative.
Tensor sliced_along(const Tensor& x, std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step) {
  const std::int64_t length = x.length(axis);
  const auto cut = [length](std::int64_t place, std::int64_t low, std::int64_t high) {
    return std::clamp(place < 0 ? place + length : place, low, high);
  };
  if (step > 0) {
    begin = cut(std::max(begin, -length), 0, length);
    end = cut(std::max(end, -length), 0, length);
    if (end <= begin) return slice(x, axis, 0, 0);
    return slice(x, axis, begin, end, step);
  }
  // Backwards: from the other end.
  if (length == 0) return x;
  begin = cut(std::max(begin, -length), 0, length - 1);
  end = end < -length ? -1 : cut(end, -1, length - 1);
  if (begin <= end) return slice(x, axis, 0, 0);
  const Tensor backwards = flip(x, {axis});
  return slice(backwards, axis, length - 1 - begin, length - 1 - end, -step);
}

Tensors sliced(const Call& call) {
  Tensor y = call.in(0);
  const auto starts = call.integers("starts", 1).value_or(Integers{});
  const auto ends = call.integers("ends", 2).value_or(Integers{});
  auto axes = call.integers("axes", 3);
  auto steps = call.opset() >= 10 && call.has(4) ? std::optional(call.values(4)) : std::nullopt;
  if (!axes) {
    axes.emplace(starts.size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (!steps) steps.emplace(starts.size(), 1);
  if (ends.size() != starts.size() || axes->size() != starts.size() || steps->size() != starts.size())
    call.refuse("starts, ends, axes and steps are of several lengths");
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if ((*steps)[i] == 0 || (*steps)[i] == std::numeric_limits<std::int64_t>::min()) call.refuse("a step is 0");
    y = sliced_along(y, call.from_front((*axes)[i], y.dim()), starts[i], ends[i], (*steps)[i]);
  }
  return {y};
}

Tensors padded(const Call& call) {
  const Tensor& x = call.in(0);
  const std::string mode = call.text("mode", "constant");
  const Integers widths = call.integers("pads", 1).value_or(Integers{});
  double value = call.number("value", 0.0);
  auto whole = static_cast<std::int64_t>(value);
  if (call.opset() >= 11 && call.has(2)) {
    value = call.value(2);
    whole = is_floating(x.dtype()) ? 0 : call.values(2).at(0);
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (std::ranges::any_of(widths, [](std::int64_t width) { return width < -kMost || width > kMost; }))
    call.refuse("a width that is too large");
  std::optional<Integers> axes = call.has(3) ? std::optional(call.values(3)) : std::nullopt;
  if (!axes) {
    axes.emplace(x.rank());
    std::iota(axes->begin(), axes->end(), 0);
  }
  const std::size_t count = axes->size();
  if (widths.size() != 2 * count) call.refuse("pads are no two for each axis");
  std::vector<Padding> pairs(x.rank());
  Tensor y = x;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t axis = call.from_front((*axes)[i], x.dim());
    pairs[static_cast<std::size_t>(axis)] = {std::max<std::int64_t>(widths[i], 0),
                                             std::max<std::int64_t>(widths[i + count], 0)};
    // Those below 0 cut.
    const std::int64_t begin = std::max<std::int64_t>(-widths[i], 0);
    const std::int64_t end = y.length(axis) - std::max<std::int64_t>(-widths[i + count], 0);
    if (begin > 0 || end < y.length(axis)) y = slice(y, axis, begin, std::max(begin, end));
  }
  if (mode == "constant") {
    if (y.dtype() == DType::boolean) return {cast(pad(cast(y, DType::u8), pairs, whole), DType::boolean)};
    return {is_floating(y.dtype()) ? pad(y, pairs, value) : pad(y, pairs, whole)};
  }
  if (mode == "reflect") return {pad(y, pairs, PaddingMode::reflect)};
  if (mode == "edge") return {pad(y, pairs, PaddingMode::replicate)};
  if (mode == "wrap") return {pad(y, pairs, PaddingMode::circular)};
  call.refuse("mode is '" + mode + "'");
}

Tensors triangle(const Call& call) {
  const std::int64_t diagonal = call.has(1) ? call.values(1).at(0) : 0;
  const std::int64_t far = call.in(0).dim() < 2 ? 0 : call.in(0).length(-1) + call.in(0).length(-2);
  const std::int64_t near = std::clamp(diagonal, -far, far);
  return {call.integer("upper", 1) != 0 ? triu(call.in(0), near) : tril(call.in(0), near)};
}

Tensors depth_to_space(const Call& call) {
  const Tensor& x = call.in(0);
  const std::int64_t r = call.integer("blocksize", 1);
  if (r < 1 || r > 1024 || x.dim() != 4) call.refuse("an image is needed, and a blocksize above 0");
  const std::int64_t c = x.length(1) / (r * r);
  if (call.text("mode", "DCR") == "CRD") return {pixel_shuffle(x, r)};
  const Tensor parts = reshape(x, {x.length(0), r, r, c, x.length(2), x.length(3)});
  return {reshape(permute(parts, {0, 3, 4, 1, 5, 2}), {x.length(0), c, x.length(2) * r, x.length(3) * r})};
}

Tensors space_to_depth(const Call& call) {
  const Tensor& x = call.in(0);
  const std::int64_t r = call.integer("blocksize", 1);
  if (r < 1 || r > 1024 || x.dim() != 4) call.refuse("an image is needed, and a blocksize above 0");
  if (call.text("mode", "DCR") == "CRD") return {pixel_unshuffle(x, r)};
  const std::int64_t h = x.length(2) / r;
  const std::int64_t w = x.length(3) / r;
  const Tensor parts = reshape(x, {x.length(0), x.length(1), h, r, w, r});
  return {reshape(permute(parts, {0, 3, 5, 1, 2, 4}), {x.length(0), x.length(1) * r * r, h, w})};
}

Tensors shape_of(const Call& call) {
  const Tensor& x = call.in(0);
  const auto place = [&](std::int64_t axis) {
    return std::clamp(axis < 0 ? axis + x.dim() : axis, std::int64_t{0}, x.dim());
  };
  const std::int64_t begin = place(call.integer("start", 0));
  const std::int64_t end = place(call.integer("end", x.dim()));
  Integers lengths;
  for (std::int64_t i = begin; i < end; ++i) lengths.push_back(x.length(i));
  return {integers_on(lengths, x.device())};
}

Tensors constant(const Call& call) {
  if (const auto array = call.array("value")) return {Tensor(*array)};
  if (call.has_attribute("value_float")) return {full({}, call.number("value_float", 0), {.dtype = DType::f32})};
  if (call.has_attribute("value_int")) return {full({}, call.integer("value_int", 0), {.dtype = DType::i64})};
  if (call.has_attribute("value_ints")) return {integers_on(*call.integers("value_ints"), cpu())};
  if (call.has_attribute("value_floats")) {
    const std::vector<double> numbers = call.numbers("value_floats");
    return {Tensor(Array::from(numbers, {static_cast<std::int64_t>(numbers.size())}, cpu()).cast(DType::f32))};
  }
  call.refuse("its value is of a kind that is not read");
}

Tensors constant_of_shape(const Call& call) {
  const Integers lengths = call.values(0);
  const auto value = call.array("value");
  const Device device = call.in(0).device();
  if (!value) return {zeros(Shape(lengths), {.device = device})};
  return {broadcast_to(reshape(Tensor(value->to(device)), {}), Shape(lengths))};
}

Tensors range_of(const Call& call) {
  const Tensor& first = call.in(0);
  const TensorOptions options{.dtype = first.dtype(), .device = first.device()};
  if (is_floating(first.dtype())) return {arange(call.value(0), call.value(1), call.value(2), options)};
  const auto whole = [&](std::size_t input) {
    if (call.in(input).size() != 1) call.refuse("input " + std::to_string(input) + " has to be one number");
    return call.values(input)[0];
  };
  return {arange(whole(0), whole(1), whole(2), options)};
}

Tensors eye_like(const Call& call) {
  const Tensor& x = call.in(0);
  if (x.dim() != 2) call.refuse("a matrix is needed");
  const auto dtype = call.has_attribute("dtype") ? dtype_of(call.integer("dtype", 1)) : std::optional(x.dtype());
  if (!dtype) call.refuse("its type is none that arrays here have");
  const std::int64_t k = call.integer("k", 0);
  const Tensor all = ones(x.shape(), {.dtype = DType::f32, .device = x.device()});
  return {cast(tril(triu(all, k), k), *dtype)};
}

Tensors dropped_out(const Call& call) {
  const bool trains = call.has(2) && call.value(2) != 0.0;
  const double ratio = call.has(1) ? call.value(1) : call.number("ratio", 0.5);
  (void)call.integer("seed", 0);
  (void)call.number("ratio", 0.5);
  if (trains && ratio != 0.0) call.refuse("dropping out in training, which is random");
  Tensors results{call.in(0)};
  const DType kept = call.opset() < 10 ? call.in(0).dtype() : DType::boolean;
  if (call.wants(1)) results.push_back(ones(call.in(0).shape(), {.dtype = kept, .device = call.in(0).device()}));
  return results;
}

constexpr OperatorEntry kOperators[] = {
    {"Concat", concatenated},
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"DepthToSpace", depth_to_space},
    {"Dropout", dropped_out},
    {"Expand", expanded},
    {"EyeLike", eye_like},
    {"Flatten", flattened},
    {"Pad", padded},
    {"Range", range_of},
    {"Reshape", reshaped},
    {"Shape", shape_of},
    {"Size", [](const Call& call) -> Tensors { return {scalar_like(call.in(0), call.in(0).size(), DType::i64)}; }},
    {"Slice", sliced},
    {"SpaceToDepth", space_to_depth},
    {"Split", split_up},
    {"Squeeze", squeezed},
    {"Tile", [](const Call& call) -> Tensors { return {tile(call.in(0), Shape(call.values(1)))}; }},
    {"Transpose", transposed},
    {"Trilu", triangle},
    {"Unsqueeze", unsqueezed},
};

}  // namespace

std::span<const OperatorEntry> shape_operators() { return kOperators; }

}  // namespace tutti::onnx
