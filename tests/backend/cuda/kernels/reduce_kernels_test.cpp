// SPDX-License-Identifier: Apache-2.0
// The reductions' kernels on the host against the CPU backend.
#include <tutti/backend/cuda/kernels/reduce.h>
#include <tutti/backend/cuda/plans/reduce_shape.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using cuda_kernels::ReduceShape;
using on_host::DeviceArray;
using samples::RandomViews;
using Axes = std::vector<std::int64_t>;

constexpr Reduction kKinds[] = {Reduction::sum, Reduction::sum_of_squares, Reduction::max, Reduction::min};
constexpr DType kNumbers[] = {DType::f32, DType::f64, DType::i32, DType::i64};

Array reduce_on_host(Reduction kind, const Array& input, const Shape& kept) {
  const DeviceArray from(input);
  const ReduceShape shape = reduce_shape(input, Array::empty(kept, input.dtype(), cpu()));
  return on_host::in_every_order([&] {
    DeviceArray to = DeviceArray::unwritten(static_cast<std::size_t>(shape.outputs) * size_of(input.dtype()));
    DeviceArray partial = DeviceArray::unwritten(static_cast<std::size_t>(shape.partial_bytes()));
    cuda_kernels::launch_reduce(nullptr, kind, input.dtype(), shape, from.data(), to.data(), partial.data());
    return to.read(kept, input.dtype());
  });
}

/// Sums agree up to the order of additions: each term's rounding, relative to the largest.
double tolerance(Reduction kind, DType dtype) {
  if (kind == Reduction::max || kind == Reduction::min) return 0;
  return dtype == DType::f32 ? 1e-5 : dtype == DType::f64 ? 1e-13 : 0;
}

void check(Reduction kind, const Array& input, const Axes& axes) {
  CAPTURE(to_string(input.shape()));
  CAPTURE(to_string(input.dtype()));
  CAPTURE(static_cast<int>(kind));
  const Array expected = reduce(kind, input, axes, true);
  CHECK(on_host::differences(reduce_on_host(kind, input, expected.shape()), expected, tolerance(kind, input.dtype())) ==
        0);
}

Array filled(RandomViews& views, const Shape& shape, DType dtype, bool ordinary) {
  const Array array = Array::empty(shape, dtype, cpu());
  if (ordinary)
    views.fill_ordinary(array);
  else
    views.fill(array);
  return array;
}

/// A kind, a type and sorts of elements in turn, so that each meets each.
class Turns {
 public:
  void check_next(const Shape& shape, const Axes& axes, const std::function<Array(Array)>& view = {}) {
    for (const bool ordinary : {true, false}) {
      const Array whole = filled(views_, shape, kNumbers[turn_ / 4 % 4], ordinary);
      check(kKinds[turn_ % 4], view ? view(whole) : whole, axes);
      turn_ += ordinary ? 0 : 5;
    }
  }

 private:
  RandomViews views_{21};
  int turn_ = 0;
};

/// Axes of `shape` that are reduced, a bit each.
Axes chosen_axes(unsigned bits) {
  Axes axes;
  for (int axis = 0; axis < 8; ++axis)
    if ((bits >> axis & 1U) != 0) axes.push_back(axis);
  return axes;
}

TEST_CASE("reductions by every way that lines are shared out") {
  Turns turns;
  for (int round = 0; round < 4; ++round) {
    CAPTURE(round);
    turns.check_next({}, {});
    turns.check_next({1}, {0});
    for (const std::int64_t length : {2, 4, 7, 8, 31, 33, 64, 129, 1023, 1024, 1027}) {
      turns.check_next({3, length}, {1});             // a line's elements side by side
      turns.check_next({length, 3}, {0});             // the lines side by side
      turns.check_next({length}, {0});                // one line
      turns.check_next({300, length % 40 + 1}, {1});  // more lines than a block takes
    }
    turns.check_next({9, 300}, {0});
    turns.check_next({40, 9, 11}, {0, 2});
  }
}

TEST_CASE("reductions of long lines, in segments that are joined") {
  Turns turns;
  for (int round = 0; round < 4; ++round) {
    turns.check_next({20000}, {0});
    turns.check_next({2, 9001}, {1});
    turns.check_next({9000, 3}, {0});
    turns.check_next({4, 3000}, {0, 1});
  }
}

TEST_CASE("reductions of any axes of any views") {
  RandomViews views(22);
  for (int round = 0; round < 120; ++round) {
    const Shape shape = views.shape(5, 40);
    const DType dtype = kNumbers[round % 4];
    const Reduction kind = kKinds[round / 4 % 4];
    const Axes axes = chosen_axes(static_cast<unsigned>(views.between(0, (1 << shape.size()) - 1)));
    if (axes.empty() && !shape.empty()) continue;  // none given means all
    // Sums of the extreme ones depend on the order of additions.
    const bool sums = kind == Reduction::sum || kind == Reduction::sum_of_squares;
    const Array view = views.input(shape, dtype);
    if (sums && (dtype == DType::f32 || dtype == DType::f64)) {
      const auto elements = static_cast<std::int64_t>(view.storage()->bytes() / size_of(dtype));
      const Array whole = as_strided(view, {elements}, {1}, 0);
      views.fill_ordinary(whole);
    }
    check(kind, view, axes);
  }
}

TEST_CASE("products of lines in every layout; integers wrap") {
  RandomViews views(45);
  for (const DType dtype : kNumbers)
    for (const Shape& shape : {Shape{3, 7}, Shape{2, 1100}, Shape{9001}, Shape{40, 9, 3}}) {
      const Array numbers = Array::empty(shape, dtype, cpu());
      visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
        if constexpr (!std::is_same_v<T, bool>)
          for (std::int64_t i = 0; i < numbers.size(); ++i)
            numbers.data<T>()[i] =
                static_cast<T>(is_floating(dtype) ? 1 + views.between(-9, 9) / 900.0
                                                  : static_cast<double>(views.between(0, 5) * 2 - 5));
      });
      for (std::int64_t axis = 0; axis < std::ssize(shape); ++axis) check(Reduction::prod, numbers, {axis});
    }
}

TEST_CASE("reductions with fewer blocks than tasks") {
  Turns turns;
  on_host::schedule.most_blocks = 2;
  turns.check_next({900, 40}, {1});
  turns.check_next({5000, 5}, {0});
  turns.check_next({30000}, {0});
  turns.check_next({1100, 33}, {1});
  on_host::schedule.most_blocks = ~0U;
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
