// SPDX-License-Identifier: Apache-2.0
// Written from the definitions in the headers, apart from the library: what it works out of integers is judged by this.
#include <tutti/tests/references/result_shapes.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace tutti::testing {
namespace {

using Wide = WideInteger;
using Formula = WideShape (*)(const Call&);

WideShape wide(const Shape& shape) { return {shape.begin(), shape.end()}; }
WideShape of_x(const Call& c) { return wide(c.x.at(0).shape()); }
WideShape given_shape(const Call& c) { return wide(c.attributes.integers("shape")); }
Wide integer(const Call& c, const char* name) { return c.attributes.integer(name); }
/// Number `i` of an attribute, 1 of one that is missing.
Wide number(const Call& c, const char* name, std::size_t i, Wide otherwise) {
  return c.attributes.has(name) ? Wide{c.attributes.integers(name)[i]} : otherwise;
}
std::size_t place(Wide axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<Wide>(rank) : axis);
}
Wide ceil_divided(Wide a, Wide b) { return (a + b - 1) / b; }

/// Windows of kernels behind the channels.
Wide windows(const Call& c, std::size_t i, Wide kernel, Wide stride) {
  const Wide length = c.x[0].shape()[i + 2];
  const Wide extent = number(c, "dilation", i, 1) * (kernel - 1) + 1;
  return (length + 2 * number(c, "padding", i, 0) - extent) / stride + 1;
}
WideShape convolved(const Call& c) {
  WideShape shape{c.x[0].shape()[0], c.x[1].shape()[0]};
  for (std::size_t i = 0; i + 2 < c.x[0].rank(); ++i)
    shape.push_back(windows(c, i, c.x[1].shape()[i + 2], number(c, "stride", i, 1)));
  return shape;
}
WideShape convolved_back(const Call& c) {
  WideShape shape{c.x[0].shape()[0], c.x[1].shape()[1] * integer(c, "groups")};
  for (std::size_t i = 0; i + 2 < c.x[0].rank(); ++i) {
    const Wide extent = number(c, "dilation", i, 1) * (c.x[1].shape()[i + 2] - 1) + 1;
    shape.push_back((c.x[0].shape()[i + 2] - 1) * number(c, "stride", i, 1) - 2 * number(c, "padding", i, 0) + extent +
                    number(c, "output_padding", i, 0));
  }
  return shape;
}
WideShape pooled(const Call& c) {
  WideShape shape{c.x[0].shape()[0], c.x[0].shape()[1]};
  for (std::size_t i = 0; i + 2 < c.x[0].rank(); ++i) {
    const Wide kernel = number(c, "kernel", i, 1);
    const Wide stride = number(c, "stride", i, kernel);
    shape.push_back(windows(c, i, kernel, stride == 0 ? kernel : stride));  // 0 in all axes: the kernel
  }
  return shape;
}
WideShape resized(const Call& c) {
  WideShape shape{c.x[0].shape()[0], c.x[0].shape()[1]};
  for (const std::int64_t length : c.attributes.integers("size")) shape.push_back(length);
  return shape;
}
WideShape padded(const Call& c) {
  WideShape shape = of_x(c);
  const Axes widths = c.attributes.integers("widths");
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] += Wide{widths[2 * i]} + widths[2 * i + 1];
  return shape;
}
WideShape with_axis(const Call& c, Wide length) {
  WideShape shape = of_x(c);
  if (!shape.empty()) shape[place(integer(c, "axis"), shape.size())] = length;
  return shape;
}
WideShape unfolded(const Call& c) {
  const Wide length = of_x(c)[place(integer(c, "axis"), c.x[0].rank())];
  WideShape shape = with_axis(c, (length - integer(c, "size")) / integer(c, "step") + 1);
  shape.push_back(integer(c, "size"));
  return shape;
}
WideShape tiled(const Call& c) {
  const WideShape counts = wide(c.attributes.integers("counts"));
  WideShape shape = of_x(c);
  if (shape.size() < counts.size()) shape.insert(shape.begin(), counts.size() - shape.size(), 1);
  for (std::size_t i = 0; i < counts.size(); ++i) shape[shape.size() - counts.size() + i] *= counts[i];
  return shape;
}
WideShape repeated(const Call& c) {
  if (c.x.size() == 1) return with_axis(c, of_x(c)[place(integer(c, "axis"), c.x[0].rank())] * integer(c, "count"));
  Wide sum = 0;
  for (const std::int64_t count : c.x[1].array().cast(DType::i64).to_vector<std::int64_t>()) sum += count;
  return with_axis(c, sum);
}
WideShape diagonals(const Call& c) {
  WideShape shape = of_x(c);
  const std::size_t rows = place(number(c, "axes", 0, 0), shape.size());
  const std::size_t columns = place(number(c, "axes", 1, 1), shape.size());
  const Wide offset = integer(c, "offset");
  const Wide length = std::min(shape[rows] + std::min<Wide>(offset, 0), shape[columns] - std::max<Wide>(offset, 0));
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(std::max(rows, columns)));
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(std::min(rows, columns)));
  shape.push_back(std::max<Wide>(length, 0));
  return shape;
}
WideShape encoded(const Call& c) {
  WideShape shape = of_x(c);
  shape.push_back(integer(c, "classes"));
  return shape;
}
WideShape reshaped(const Call& c) {
  WideShape shape = given_shape(c);
  Wide open = c.x[0].size();
  for (const Wide length : shape)
    if (length > 0) open /= length;
  std::replace(shape.begin(), shape.end(), Wide{-1}, open);
  return shape;
}
WideShape sliced(const Call& c) {
  const Wide length = of_x(c)[place(integer(c, "axis"), c.x[0].rank())];
  const auto end = [&](std::size_t i) {
    const Wide at = c.attributes.integers("range")[i];
    return at < 0 ? at + length : at;
  };
  return with_axis(c, ceil_divided(end(1) - end(0), c.attributes.integers("range")[2]));
}
WideShape shuffled(const Call& c) {
  WideShape shape = of_x(c);
  const Wide factor = integer(c, "factor");
  shape.end()[-3] /= factor;
  shape.end()[-3] /= factor;
  shape.end()[-2] *= factor;
  shape.end()[-1] *= factor;
  return shape;
}
WideShape unshuffled(const Call& c) {
  WideShape shape = of_x(c);
  const Wide factor = integer(c, "factor");
  shape.end()[-3] *= factor;
  shape.end()[-3] *= factor;
  shape.end()[-2] /= factor;
  shape.end()[-1] /= factor;
  return shape;
}
WideShape counted(const Call& c) {
  Wide length = integer(c, "least");
  for (const std::int64_t number : c.x[0].array().cast(DType::i64).to_vector<std::int64_t>())
    length = std::max(length, Wide{number} + 1);
  return {length};
}
WideShape taken(const Call& c) {
  WideShape shape = of_x(c);
  const std::size_t axis = c.attributes.has("axis") ? place(integer(c, "axis"), shape.size()) : 0;
  const WideShape index = wide(c.x[1].shape());
  const auto at = shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  shape.insert(at, index.begin(), index.end());
  return shape;
}
WideShape transformed(const Call& c, bool halves, bool doubles) {
  WideShape shape = of_x(c);
  Wide& length = shape[place(number(c, "axis", 0, -1), shape.size())];
  length = number(c, "length", 0, doubles ? 2 * (length - 1) : length);
  if (halves) length = length / 2 + 1;
  return shape;
}
// Of floating numbers as f64 counts them: 1 and the ends of 64 bits differ by a whole step there.
WideShape range_of(const Call& c) {
  const Attributes& a = c.attributes;
  if (a.flag("floating"))
    return {static_cast<Wide>(std::max(0.0, std::ceil((a.number("end") - a.number("begin")) / a.number("step"))))};
  const Wide step = integer(c, "step");
  const Wide distance = step > 0 ? integer(c, "end") - integer(c, "begin") : integer(c, "begin") - integer(c, "end");
  return {std::max<Wide>(0, ceil_divided(distance, step > 0 ? step : -step))};
}

const std::map<std::string, Formula>& formulas() {
  static const std::map<std::string, Formula> kFormulas{
      {"conv1d", convolved},
      {"conv2d", convolved},
      {"grouped_conv2d", convolved},
      {"conv3d", convolved},
      {"conv_transpose1d", convolved_back},
      {"conv_transpose2d", convolved_back},
      {"conv_transpose3d", convolved_back},
      {"max_pool1d", pooled},
      {"max_pool2d", pooled},
      {"max_pool3d", pooled},
      {"avg_pool1d", pooled},
      {"avg_pool2d", pooled},
      {"avg_pool3d", pooled},
      {"adaptive_avg_pool1d", resized},
      {"adaptive_avg_pool2d", resized},
      {"adaptive_avg_pool3d", resized},
      {"adaptive_max_pool1d", resized},
      {"adaptive_max_pool2d", resized},
      {"adaptive_max_pool3d", resized},
      {"pad", padded},
      {"pad_mode", padded},
      {"unfold", unfolded},
      {"tile", tiled},
      {"repeat_interleave", repeated},
      {"roll", of_x},
      {"tril", of_x},
      {"triu", of_x},
      {"slice_assign", of_x},
      {"scatter", of_x},
      {"rotary_embedding", of_x},
      {"group_norm", of_x},
      {"layer_norm", of_x},
      {"rms_norm", of_x},
      {"diagonal", diagonals},
      {"one_hot", encoded},
      {"reshape", reshaped},
      {"broadcast_to", given_shape},
      {"sum_to", given_shape},
      {"scatter_add", given_shape},
      {"slice", sliced},
      {"pixel_shuffle", shuffled},
      {"pixel_unshuffle", unshuffled},
      {"topk", [](const Call& c) { return with_axis(c, integer(c, "count")); }},
      {"bincount", counted},
      {"gather", [](const Call& c) { return wide(c.x[1].shape()); }},
      {"take", taken},
      {"embedding", taken},
      {"fft", [](const Call& c) { return transformed(c, false, false); }},
      {"ifft", [](const Call& c) { return transformed(c, false, false); }},
      {"rfft", [](const Call& c) { return transformed(c, true, false); }},
      {"irfft", [](const Call& c) { return transformed(c, false, true); }},
      {"arange", range_of},
      {"linspace", [](const Call& c) { return WideShape{integer(c, "count")}; }},
      {"permutation", [](const Call& c) { return WideShape{integer(c, "count")}; }},
      {"multinomial",
       [](const Call& c) {
         return WideShape{2, integer(c, "count")};
       }},
      {"eye",
       [](const Call& c) {
         return WideShape{integer(c, "rows"), integer(c, "columns")};
       }},
      {"zeros", given_shape},
      {"ones", given_shape},
      {"full", given_shape},
      {"uniform", given_shape},
      {"normal", given_shape},
      {"truncated_normal", given_shape},
      {"exponential", given_shape},
      {"gumbel", given_shape},
      {"laplace", given_shape},
      {"cauchy", given_shape},
      {"log_normal", given_shape},
      {"randint", given_shape},
  };
  return kFormulas;
}

}  // namespace

std::optional<WideShape> shape_of_result(const std::string& operation, const Call& call) {
  if (operation == "interpolate" && call.attributes.has("size")) return resized(call);
  const auto found = formulas().find(operation);
  return found == formulas().end() ? std::nullopt : std::optional(found->second(call));
}

}  // namespace tutti::testing
