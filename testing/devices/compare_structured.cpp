// SPDX-License-Identifier: Apache-2.0
#include <tutti/testing/device_comparison.h>
#include <tutti/testing/devices/optimizer_rule_samples.h>

#include <tutti/backend/custom_kernel.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace tutti::testing {
namespace {

std::vector<DType> types(bool (*wanted)(DType)) {
  std::vector<DType> found;
  for (const DType dtype : kAllDTypes)
    if (wanted(dtype)) found.push_back(dtype);
  return found;
}
bool is_floating_type(DType dtype) { return is_floating(dtype); }
bool is_number(DType dtype) { return dtype != DType::boolean; }

std::string_view name_of(Reduction kind) {
  switch (kind) {
    case Reduction::sum: return "sum";
    case Reduction::sum_of_squares: return "sum_of_squares";
    case Reduction::max: return "max";
    case Reduction::min: return "min";
    case Reduction::prod: break;
  }
  return "prod";
}

void compare_reduce(DeviceComparison& both, const Shape& shape, const std::vector<std::int64_t>& axes, DType dtype) {
  both.set_case(fmt::format("axes [{}]", fmt::join(axes, ", ")));
  for (const auto kind : {Reduction::sum, Reduction::sum_of_squares, Reduction::max, Reduction::min, Reduction::prod})
    for (const Numbers sample : {Numbers::plain, Numbers::special}) {
      if (sample == Numbers::special && !is_floating(dtype)) continue;  // sums of the largest integers wrap as they may
      if (sample == Numbers::special && kind == Reduction::prod) continue;  // and products overflow in some order
      both.compare_layouts(
          name_of(kind), {numbers(shape, dtype, sample, 1)},
          [&](const Arrays& in) { return Arrays{reduce(kind, in[0], axes)}; },
          kind == Reduction::sum || kind == Reduction::sum_of_squares ? Match::largest : Match::each);
    }
  both.set_case("");
}

void compare_arg_reduce(DeviceComparison& both, const Shape& shape, std::int64_t axis, DType dtype) {
  for (const auto kind : {ArgReduction::arg_max, ArgReduction::arg_min})
    for (const Numbers sample : {Numbers::plain, Numbers::special})
      both.compare_layouts(kind == ArgReduction::arg_max ? "arg_max" : "arg_min", {numbers(shape, dtype, sample, 2)},
                           [=](const Arrays& in) { return Arrays{arg_reduce(kind, in[0], axis)}; });
}

void compare_cumsum(DeviceComparison& both, const Shape& shape, std::int64_t axis, DType dtype) {
  for (const bool reverse : {false, true})
    both.compare_layouts(
        "cumsum", {numbers(shape, dtype, Numbers::plain, 2)},
        [=](const Arrays& in) { return Arrays{cumsum(in[0], axis, reverse)}; }, Match::largest);
}

void compare_running_arg(DeviceComparison& both, const Shape& shape, std::int64_t axis, DType dtype) {
  for (const auto kind : {ArgReduction::arg_max, ArgReduction::arg_min})
    for (const Numbers sample : {Numbers::plain, Numbers::special})
      both.compare_layouts("running_arg", {numbers(shape, dtype, sample, 2)},
                           [=](const Arrays& in) { return Arrays{running_arg(kind, in[0], axis)}; });
}

void compare_sort(DeviceComparison& both, const Shape& shape, std::int64_t axis, DType dtype) {
  for (const bool descending : {false, true})
    for (const Numbers sample : {Numbers::plain, Numbers::special})
      both.compare_layouts("arg_sort", {numbers(shape, dtype, sample, 2)},
                           [=](const Arrays& in) { return Arrays{arg_sort(in[0], axis, descending)}; });
}

void compare_fourier(DeviceComparison& both, std::int64_t length, DType dtype) {
  using Kind = FourierTransform::Kind;
  const std::int64_t half = length / 2 + 1;
  const auto compare = [&](const FourierTransform& transform, const Shape& shape) {
    both.compare_layouts(
        "fourier", {numbers(shape, dtype, Numbers::plain, 2)},
        [=](const Arrays& in) { return Arrays{fourier(transform, in[0])}; }, Match::largest);
  };
  for (const bool inverse : {false, true}) compare({Kind::complex, inverse, length}, {3, length, 2});
  compare({Kind::real_to_complex, false, length}, {3, length});
  compare({Kind::complex_to_real, true, length}, {3, half, 2});
}

void compare_softmax(DeviceComparison& both, const Shape& shape, std::int64_t axis, DType dtype) {
  for (const auto kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
    const std::string name = kind == SoftmaxKind::softmax ? "softmax" : "log_softmax";
    for (const Numbers sample : {Numbers::plain, Numbers::special})
      both.compare_layouts(name, {numbers(shape, dtype, sample, 3)},
                           [=](const Arrays& in) { return Arrays{softmax(kind, in[0], axis)}; });
    both.compare_layouts(
        name + "'s gradient", {numbers(shape, dtype, Numbers::plain, 4), numbers(shape, dtype, Numbers::plain, 5)},
        [=](const Arrays& in) { return Arrays{softmax_gradient(kind, softmax(kind, in[0], axis), in[1], axis)}; },
        Match::largest);
  }
}

/// The two as one output, whose tolerance is that of the larger.
Array beside(const Array& first, const Array& second) {
  const Array parts[] = {first, second};
  return concatenate(parts, 0);
}

void compare_normalize(DeviceComparison& both, const Shape& shape, DType dtype) {
  const DType computed = computed_in(dtype);
  const double rounding = computed == DType::f64 ? 0x1p-52 : 0x1p-23;
  const Arrays inputs{numbers(shape, dtype, Numbers::plain, 31), numbers({shape[1]}, computed, Numbers::plain, 32),
                      numbers({shape[1]}, computed, Numbers::plain, 33), numbers(shape, dtype, Numbers::plain, 34)};
  for (const RowNorm& norm : {RowNorm{}, RowNorm{.centred = false, .epsilon = 0.1}})
    for (const bool affine : {true, false})
      both.compare_layouts(
          "normalize_rows", inputs,
          [&](const Arrays& in) {
            const Array weight = affine ? in[1] : Array();
            const auto [y, mean, scale] = normalize_rows(norm, in[0], weight, affine ? in[2] : Array());
            const auto columns = normalize_rows_column_gradients(in[0], mean, scale, in[3], true);
            Array gradient = normalize_rows_gradient(norm, in[0], weight, mean, scale, in[3]);
            // A centred row of one element has no variance, and the gradient 0: weight * dy, at most 3 * 3, less its
            // mean, times 1 / sqrt(epsilon). A fused multiply-add leaves the product's rounding error of that
            // difference.
            if (norm.centred && shape[1] == 1) {
              const double error = (affine ? 9 : 3) * rounding / std::sqrt(norm.epsilon);
              gradient = beside(gradient, Array::full(shape, error / tolerance(dtype), dtype, gradient.device()));
            }
            return Arrays{y, mean, scale, gradient, columns.weight, columns.bias};
          },
          Match::largest);
  both.compare(
      "normalize_rows", {numbers(shape, dtype, Numbers::special, 35)},
      [](const Arrays& in) { return Arrays{normalize_rows({}, in[0]).output}; }, Match::largest);
}

void compare_matmul(DeviceComparison& both, DType dtype) {
  const std::pair<Shape, Shape> cases[] = {{{1, 1}, {1, 1}},          {{3, 1}, {1, 5}},       {{5, 7}, {7, 3}},
                                           {{17, 19}, {19, 23}},      {{64, 100}, {100, 10}}, {{2, 0}, {0, 3}},
                                           {{0, 3}, {3, 2}},          {{33, 65}, {65, 31}},   {{3, 4, 5}, {5, 6}},
                                           {{2, 1, 9, 4}, {3, 4, 7}}, {{1, 300}, {300, 70}},  {{129, 65}, {65, 100}}};
  for (const auto& [left, right] : cases) {
    const Array a = numbers(left, dtype, Numbers::plain, 6);
    const Array b = numbers(right, dtype, Numbers::plain, 7);
    both.compare_layouts(
        "matmul", {a, b}, [](const Arrays& in) { return Arrays{matmul(in[0], in[1])}; }, Match::largest);
  }
  both.compare(
      "matmul", {numbers({5, 6}, dtype, Numbers::special, 8), numbers({6, 4}, dtype, Numbers::positive, 9)},
      [](const Arrays& in) { return Arrays{matmul(in[0], in[1])}; }, Match::largest);
}

void compare_linear(DeviceComparison& both, DType dtype) {
  const Arrays inputs{numbers({17, 19}, dtype, Numbers::plain, 6), numbers({23, 19}, dtype, Numbers::plain, 7),
                      numbers({23}, dtype, Numbers::plain, 8)};
  for (const auto activation : {LinearActivation::none, LinearActivation::relu, LinearActivation::gelu})
    both.compare_layouts(
        "linear", inputs,
        [=](const Arrays& in) {
          // GELU of x far below 0 is x (1 + erf(...)) / 2, a sum that cancels: its errors are relative to x.
          const auto activated = [&](const Array& bias) {
            const Array y = linear(in[0], in[1], bias, activation);
            return activation == LinearActivation::gelu ? beside(y, linear(in[0], in[1], bias)) : y;
          };
          return Arrays{activated(in[2]), activated({})};
        },
        Match::largest);
}

void compare_gather(DeviceComparison& both, DType dtype) {
  struct Case {
    Shape input;
    std::int64_t axis;
    Shape index;
  };
  for (const Case& c : {Case{{5, 7}, 1, {5, 3}},
                        {{5, 7}, 0, {9, 7}},
                        {{4, 3, 6}, 1, {4, 5, 2}},
                        {{1}, 0, {1}},
                        {{100, 8}, 0, {300, 8}},
                        {{5, 7}, 0, {0, 7}}}) {
    const std::int64_t length = c.input[static_cast<std::size_t>(c.axis)];
    const Array index = indices(c.index, length, 10);
    Shape pairs = c.index;
    pairs.push_back(2);
    const Array apart = indices(pairs, length, 10);
    Shape once = c.index;
    once[once.size() - 1] = 1;
    const Array repeated = indices(once, length, 10);
    both.compare_layouts(
        "gather", {numbers(c.input, dtype, Numbers::special, 11)},
        [&](const Arrays& in) {
          const auto chosen = [&](const Array& by) { return gather(in[0], c.axis, by); };
          const Device device = in[0].device();
          return Arrays{chosen(index.to(device)), chosen(apart.to(device).slice(-1, 0, 1).squeeze(-1)),
                        chosen(repeated.to(device).broadcast_to(c.index))};
        },
        Match::bitwise);
    both.compare_layouts(
        "scatter_add", {numbers(c.index, dtype, Numbers::plain, 12)},
        [&](const Arrays& in) { return Arrays{scatter_add(c.input, in[0], c.axis, index.to(in[0].device()))}; },
        Match::largest);
    const Array updates = numbers(c.index, dtype, Numbers::plain, 12);
    for (const Scatter kind : {Scatter::set, Scatter::prod, Scatter::max, Scatter::min})
      both.compare_layouts(
          "scatter", {numbers(c.input, dtype, Numbers::plain, 11), updates},
          [&](const Arrays& in) { return Arrays{scatter(kind, in[0], c.axis, index.to(in[0].device()), in[1])}; },
          kind == Scatter::prod ? Match::largest : Match::bitwise);
  }
}

void compare_concatenate(DeviceComparison& both, DType dtype) {
  both.compare_layouts(
      "concatenate",
      {numbers({3, 4}, dtype, Numbers::special, 13), numbers({3, 1}, dtype, Numbers::special, 14),
       numbers({3, 0}, dtype, Numbers::special, 15)},
      [](const Arrays& in) { return Arrays{concatenate(in, 1)}; }, Match::bitwise);
}

void compare_convolution(DeviceComparison& both, DType dtype) {
  struct Case {
    Shape input;
    Shape weight;
    Conv2dGeometry geometry;
  };
  const Case cases[] = {{{2, 3, 8, 8}, {4, 3, 3, 3}, {.padding = {1, 1}}},
                        {{3, 1, 5, 7}, {2, 1, 3, 2}, {}},
                        {{1, 2, 9, 10}, {3, 2, 3, 3}, {.stride = {2, 3}, .padding = {1, 2}}},
                        {{2, 2, 11, 9}, {2, 2, 3, 2}, {.stride = {1, 2}, .padding = {2, 0}, .dilation = {2, 3}}},
                        {{5, 4, 6, 6}, {7, 4, 1, 1}, {}},
                        {{1, 1, 1, 1}, {1, 1, 3, 3}, {.padding = {3, 3}}},
                        {{0, 3, 8, 8}, {4, 3, 3, 3}, {}},
                        {{2, 6, 9, 10}, {6, 1, 3, 3}, {.padding = {1, 1}, .groups = 6}},
                        {{2, 4, 11, 9}, {8, 2, 3, 2}, {.stride = {2, 1}, .dilation = {1, 2}, .groups = 2}},
                        {{3, 12, 7, 8}, {12, 6, 3, 3}, {.stride = {1, 2}, .padding = {1, 1}, .groups = 2}}};
  for (const Case& c : cases)
    both.compare_layouts(
        "conv2d", {numbers(c.input, dtype, Numbers::plain, 16), numbers(c.weight, dtype, Numbers::plain, 17)},
        [&](const Arrays& in) {
          const Array y = conv2d(c.geometry, in[0], in[1]);
          return Arrays{y, conv2d_input_gradient(c.geometry, y, in[1], c.input),
                        conv2d_weight_gradient(c.geometry, y, in[0], c.weight)};
        },
        Match::largest);
}

void compare_pooling(DeviceComparison& both, DType dtype) {
  const Pool2dGeometry geometries[] = {
      {}, {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}}, {.kernel = {1, 1}, .stride = {1, 1}}};
  for (const Pool2dGeometry& geometry : geometries)
    for (const Shape& shape : {Shape{2, 3, 8, 9}, Shape{1, 1, 4, 4}, Shape{0, 1, 4, 4}})
      for (const Numbers sample : {Numbers::plain, Numbers::special})
        both.compare_layouts("max_pool2d", {numbers(shape, dtype, sample, 18)}, [&](const Arrays& in) {
          const auto [maxima, index] = max_pool2d(geometry, in[0]);
          return Arrays{maxima, index, max_pool2d_gradient(geometry, maxima, index, shape)};
        });
  for (const Pool2dGeometry& windows : geometries)
    for (const Shape& shape : {Shape{2, 3, 8, 9}, Shape{1, 1, 4, 4}, Shape{0, 1, 4, 4}})
      for (const bool count_include_pad : {false, true})
        both.compare_layouts("avg_pool2d", {numbers(shape, dtype, Numbers::plain, 18)}, [&](const Arrays& in) {
          const AvgPool2dGeometry geometry{windows.kernel, windows.stride, windows.padding, count_include_pad};
          const Array means = avg_pool2d(geometry, in[0]);
          return Arrays{means, avg_pool2d_gradient(geometry, means, shape)};
        });
}

/// How a backend runs kernels of programs: of kinds that have a function for it, as those around a CPU device have.
void compare_custom(DeviceComparison& both, DType dtype) {
  static const CustomKernel& twice = *new CustomKernel(
      "twice", {.cpu = [](const CustomCall& call, const CpuThreads&) {
        const Array& from = call.inputs[0];
        visit_dtype(from.dtype(), [&]<class T>(std::type_identity<T>) {
          for (std::int64_t i = 0; i < from.size(); ++i)
            call.outputs[0].data<T>()[i] = static_cast<T>(call.parameters[0] * static_cast<double>(from.data<T>()[i]));
        });
      }});
  for (const Shape& shape : {Shape{5, 37}, Shape{1}, Shape{0, 4}})
    both.compare_layouts("a kernel of a program", {numbers(shape, dtype, Numbers::plain, 41)}, [&](const Arrays& in) {
      const Array x = in[0].contiguous();
      if (!backend_for(x.device()).runs(twice, x.device())) return Arrays{apply(elementwise::Add{}, x, x)};
      return Arrays{run_kernel(twice.with({2}), {&x, 1}, shape, dtype)};
    });
}

}  // namespace

void compare_reductions(DeviceComparison& both) {
  for (const DType dtype : types(is_number)) {
    for (const auto& axes : std::vector<std::vector<std::int64_t>>{{}, {0}, {1}, {2}, {0, 2}, {1, 2}})
      compare_reduce(both, {5, 7, 33}, axes, dtype);
    compare_reduce(both, {1}, {0}, dtype);
    compare_reduce(both, {2, 0, 3}, {0}, dtype);
    compare_reduce(both, {2, 0, 3}, {1}, dtype);
    compare_reduce(both, {4099}, {0}, dtype);
    compare_reduce(both, {3, 1500}, {1}, dtype);
    compare_reduce(both, {1500, 3}, {0}, dtype);
    for (const std::int64_t axis : {0, 1, 2}) compare_arg_reduce(both, {5, 7, 33}, axis, dtype);
    compare_arg_reduce(both, {2, 3001}, 1, dtype);
    compare_arg_reduce(both, {1}, 0, dtype);
    for (const Shape& shape : {Shape{5, 7, 33}, Shape{2, 3, 1500}, Shape{0, 2, 1}})
      for (const std::int64_t axis : {0, 1, 2}) {
        compare_cumsum(both, shape, axis, dtype);
        compare_running_arg(both, shape, axis, dtype);
        compare_sort(both, shape, axis, dtype);
      }
  }
  for (const DType dtype : types(is_floating_type)) {
    for (const std::int64_t axis : {0, 1, 2}) compare_softmax(both, {4, 5, 37}, axis, dtype);
    compare_softmax(both, {3, 1030}, 1, dtype);
    compare_softmax(both, {1}, 0, dtype);
    compare_softmax(both, {0, 4}, 1, dtype);
    for (const std::int64_t length : {1, 2, 12, 67, 1024}) compare_fourier(both, length, dtype);
    for (const Shape& shape : {Shape{5, 37}, Shape{3, 1030}, Shape{200, 12}, Shape{1, 1}, Shape{0, 4}})
      compare_normalize(both, shape, dtype);
  }
}

void compare_structured(DeviceComparison& both) {
  for (const DType dtype : types(is_floating_type)) {
    compare_matmul(both, dtype);
    compare_linear(both, dtype);
    compare_convolution(both, dtype);
    compare_pooling(both, dtype);
    compare_custom(both, dtype);
  }
  for (const DType dtype : types(is_number)) compare_gather(both, dtype);
  for (const DType dtype : kAllDTypes) compare_concatenate(both, dtype);
}

void compare_optimizers(DeviceComparison& both) {
  for (const DType dtype : {DType::f32, DType::f64})  // others come widened
    for (const std::int64_t count : {1, 7, 1030}) {
      Arrays inputs;
      for (unsigned i = 0; i < 2; ++i) inputs.push_back(numbers({count}, dtype, Numbers::plain, 19 + i));
      for (unsigned i = 0; i < 3; ++i) inputs.push_back(numbers({count}, dtype, Numbers::positive, 22));
      for (const OptimizerRule& rule : samples::kOptimizerRules)
        both.compare("optimizer_step", inputs, [&](const Arrays& in) {
          const RuleOperands operands[] = {{in[0], in[1], {in[2], in[3], in[4]}}};
          backend_for(in[0].device()).optimizer_step(rule, operands);
          return Arrays{in[0], in[2], in[3], in[4]};
        });
    }
}

// Each of so many rows has a warp on CUDA.
void compare_many_rows(DeviceComparison& both) {
  const std::vector<std::int64_t> rows{1};
  both.compare(
      "reductions of many rows", {numbers({8193, 1028}, DType::f32, Numbers::plain, 1)},
      [&](const Arrays& in) {
        return Arrays{sum(in[0], rows), reduce(Reduction::max, in[0], rows),
                      arg_reduce(ArgReduction::arg_max, in[0], 1), softmax(SoftmaxKind::softmax, in[0], 1)};
      },
      Match::largest);
}

}  // namespace tutti::testing
