// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/operators/operator_call.h>

#include <algorithm>

namespace tutti::onnx {

namespace {

using Call = OperatorCall;

/// Places from the front, as i64.
Tensor from_front(const Tensor& places, std::int64_t length) {
  const Tensor all = cast(places, DType::i64);
  return where(all < scalar_like(all, 0.0), all + scalar_like(all, length, DType::i64), all);
}

std::int64_t axis_of(const Call& call, const Tensor& x) { return call.from_front(call.integer("axis", 0), x.dim()); }

Tensors gathered(const Call& call) {
  const Tensor& x = call.in(0);
  return {take(x, cast(call.in(1), DType::i64), axis_of(call, x))};
}

Tensors gathered_elements(const Call& call) {
  const Tensor& x = call.in(0);
  const std::int64_t axis = axis_of(call, x);
  return {gather(x, axis, from_front(call.in(1), x.length(axis)))};
}

Scatter kind_of(const Call& call) {
  const std::string kind = call.text("reduction", "none");
  if (kind == "none") return Scatter::set;
  if (kind == "add") return Scatter::add;
  if (kind == "mul") return Scatter::prod;
  if (kind == "max") return Scatter::max;
  if (kind == "min") return Scatter::min;
  call.refuse("reduction is '" + kind + "'");
}

Tensors scattered_elements(const Call& call) {
  const Tensor& x = call.in(0);
  const std::int64_t axis = axis_of(call, x);
  return {scatter(x, axis, from_front(call.in(1), x.length(axis)), call.in(2), kind_of(call))};
}

/// Rows of x, its axes from `first` on up to `last` being one, that the last axis of `places` counts in.
struct Rows {
  Tensor x;       // [batch..., rows, rest]
  Tensor places;  // [batch, n]
  Shape batch;
  Shape wanted;  // axes of the places behind the batch
  Shape rest;
};

Rows rows_of(const Call& call, const Tensor& x, const Tensor& places, std::int64_t batch_axes) {
  if (places.dim() < 1 || batch_axes < 0 || batch_axes >= places.dim()) call.refuse("indices of too few axes");
  const std::int64_t depth = places.length(-1);
  if (batch_axes + depth > x.dim()) call.refuse("indices of more axes than the input has");
  Rows rows;
  std::int64_t count = 1;
  std::int64_t size = 1;
  std::int64_t rest = 1;
  std::int64_t batch = 1;
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    if (i < batch_axes) {
      rows.batch.push_back(x.length(i));
      batch *= x.length(i);
    } else if (i < batch_axes + depth) {
      count *= x.length(i);
    } else {
      rows.rest.push_back(x.length(i));
      rest *= x.length(i);
    }
  }
  for (std::int64_t i = batch_axes; i + 1 < places.dim(); ++i) {
    rows.wanted.push_back(places.length(i));
    size *= places.length(i);
  }
  Tensor outside = zeros({batch, size}, {.dtype = DType::boolean, .device = x.device()});
  Tensor row = zeros({batch, size}, {.dtype = DType::i64, .device = x.device()});
  const Tensor all = reshape(cast(places, DType::i64), {batch, size, depth});
  for (std::int64_t i = 0; i < depth; ++i) {
    const std::int64_t length = x.length(batch_axes + i);
    const Tensor place = from_front(reshape(slice(all, 2, i, i + 1), {batch, size}), length);
    outside = logical_or(outside,
                         logical_or(place < scalar_like(place, 0.0), place >= scalar_like(place, length, DType::i64)));
    row = row * scalar_like(row, length, DType::i64) + place;
  }
  // One that an axis has not is no row at all, which is told.
  row = where(outside, scalar_like(row, count, DType::i64), row);
  rows.x = reshape(x, {batch, count, rest});
  rows.places = broadcast_to(expand_dims(row, 2), {batch, size, rest});
  return rows;
}

Tensors gathered_rows(const Call& call) {
  const Rows rows = rows_of(call, call.in(0), call.in(1), call.integer("batch_dims", 0));
  Shape shape = rows.batch;
  for (const Shape& part : {rows.wanted, rows.rest})
    for (const std::int64_t length : part) shape.push_back(length);
  return {reshape(gather(rows.x, 1, rows.places), shape)};
}

Tensors scattered_rows(const Call& call) {
  const Tensor& x = call.in(0);
  const Rows rows = rows_of(call, x, call.in(1), 0);
  const Tensor updates = reshape(call.in(2), rows.places.shape());
  return {reshape(scatter(rows.x, 1, rows.places, updates, kind_of(call)), x.shape())};
}

Tensors one_hot_of(const Call& call) {
  const Tensor& places = call.in(0);
  const double told = call.value(1);
  if (!(told >= 0 && told < 0x1p53)) call.refuse("depth is " + std::to_string(told));
  const auto depth = static_cast<std::int64_t>(told);
  const Tensor& values = call.in(2);  // off, on
  const std::int64_t axis = call.integer("axis", -1);
  const Tensor all = call.opset() < 11 ? cast(places, DType::i64) : from_front(places, depth);
  const Tensor line = arange(0, depth, {.dtype = DType::i64, .device = all.device()});
  const Tensor hot = expand_dims(all, -1) == line;
  const Tensor y = where(hot, reshape(slice(values, 0, 1, 2), {}), reshape(slice(values, 0, 0, 1), {}));
  return {moveaxis(y, -1, axis)};
}

Tensors compressed(const Call& call) {
  const Tensor x = call.has_attribute("axis") ? call.in(0) : flatten(call.in(0));
  const std::int64_t axis = axis_of(call, x);
  const Tensor places = flatten(argwhere(call.in(1)));
  return {take(x, places, axis)};
}

Tensors reversed(const Call& call) {
  const Tensor& x = call.in(0);
  const Integers lengths = call.values(1);
  const std::int64_t time = call.integer("time_axis", 0);
  const std::int64_t batch = call.integer("batch_axis", 1);
  if (x.dim() < 2 || static_cast<std::int64_t>(lengths.size()) != x.length(batch))
    call.refuse("a length for each of the batch is needed");
  Tensors parts;
  for (std::int64_t i = 0; i < x.length(batch); ++i) {
    const Tensor one = slice(x, batch, i, i + 1);
    const std::int64_t length = lengths.at(static_cast<std::size_t>(i));
    parts.push_back(
        concatenate({flip(slice(one, time, 0, length), {time}), slice(one, time, length, x.length(time))}, time));
  }
  return {concatenate(parts, batch)};
}

constexpr OperatorEntry kOperators[] = {
    {"Compress", compressed},
    {"Gather", gathered},
    {"GatherElements", gathered_elements},
    {"GatherND", gathered_rows},
    {"NonZero", [](const Call& call) -> Tensors { return {transpose(argwhere(call.in(0)), 0, 1)}; }},
    {"OneHot", one_hot_of},
    {"ReverseSequence", reversed},
    {"Scatter", scattered_elements},
    {"ScatterElements", scattered_elements},
    {"ScatterND", scattered_rows},
};

}  // namespace

std::span<const OperatorEntry> index_operators() { return kOperators; }

}  // namespace tutti::onnx
