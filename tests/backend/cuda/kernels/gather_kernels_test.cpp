// SPDX-License-Identifier: Apache-2.0
// The kernels of gather and scatter on the host against the CPU backend.
#include <tutti/backend/cuda/kernels/gather.h>
#include <tutti/backend/cuda/kernels/scatter.h>
#include <tutti/backend/cuda/plans/selection.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using cuda_kernels::IndexFault;
using cuda_kernels::Selection;
using cuda_kernels::SortedUpdates;
using on_host::DeviceArray;
using samples::RandomViews;

struct Case {
  Shape selected;
  Shape index;
  std::size_t axis;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> cases = {
      {{10}, {6}, 0},
      {{1}, {1}, 0},
      {{10, 5}, {300, 5}, 0},       // all of the other axis
      {{10, 5}, {300, 3}, 0},       // a part of it
      {{6, 10, 5}, {6, 70, 5}, 1},  // in the middle
      {{6, 10, 5}, {3, 70, 4}, 1},
      {{6, 10}, {6, 1}, 1},  // one of each line
      {{6, 10}, {4, 90}, 1},
      {{2, 3, 4, 5}, {1, 2, 200, 5}, 2},
      {{3, 4}, {700, 4}, 0},    // long runs of one place
      {{1, 2}, {1000, 1}, 0},   // one run
      {{500, 3}, {500, 3}, 0},  // short runs
  };
  return cases;
}

/// Some of which are out of range.
Array some_index(RandomViews& views, const Case& c, std::int64_t faulty) {
  const Array index = Array::empty(c.index, DType::i64, cpu());
  const std::int64_t length = c.selected[c.axis];
  for (std::int64_t i = 0; i < index.size(); ++i) index.data<std::int64_t>()[i] = views.between(0, length - 1);
  for (std::int64_t i = 0; i < faulty; ++i)
    index.data<std::int64_t>()[views.between(0, index.size() - 1)] = i % 2 == 0 ? length : -1 - i;
  return index;
}

Array filled(RandomViews& views, const Shape& shape, DType dtype) {
  const Array array = Array::empty(shape, dtype, cpu());
  views.fill_ordinary(array);
  return array;
}

/// Where kernels report faults.
class Report {
 public:
  IndexFault fault;

  void check(IndexFault::Operation operation, const Case& c) const {
    CHECK(fault.operation == operation);
    if (operation == IndexFault::Operation::none) return;
    const std::int64_t length = c.selected[c.axis];
    CHECK((fault.index < 0 || fault.index >= length));
    CHECK(fault.axis == static_cast<std::int64_t>(c.axis));
    CHECK(fault.length == length);
  }

 private:
  on_host::LentMemory lent_{"the report", &fault, sizeof(fault), on_host::Lending::racing};
};

Array gather_on_host(const Array& input, const Case& c, const Array& index, IndexFault& fault) {
  const DeviceArray from(input);
  const DeviceArray places(index);
  return on_host::in_every_order([&] {
    DeviceArray to = DeviceArray::unwritten(static_cast<std::size_t>(index.size()) * size_of(input.dtype()));
    const Selection selection = selection_of("gather", c.selected, c.index, index.strides(), c.axis);
    cuda_kernels::launch_gather(nullptr, input.dtype(), selection, from.data(), places.as<std::int64_t>(), to.data(),
                                &fault);
    return to.read(index.shape(), input.dtype());
  });
}

/// What updates are scattered into.
struct Target {
  Scatter kind;
  Array x;

  DeviceArray on_host() const {
    synchronize(x.device());
    DeviceArray copy = DeviceArray::unwritten(x.bytes());
    std::memcpy(copy.data(), x.raw_data(), x.bytes());
    return copy;
  }
};

Target zeros(const Case& c, DType dtype) { return {Scatter::add, Array::zeros(c.selected, dtype, cpu())}; }

Array scatter_lines_on_host(const Target& target, const Array& updates, const Case& c, const Array& index,
                            IndexFault& fault) {
  const DeviceArray from(updates);
  const DeviceArray places(index);
  return on_host::in_every_order([&] {
    DeviceArray to = target.on_host();
    cuda_kernels::launch_scatter_lines(nullptr, target.kind, updates.dtype(),
                                       selection_of("scatter", c.selected, c.index, c.axis), from.data(),
                                       places.as<std::int64_t>(), to.data(), &fault);
    return to.read(c.selected, updates.dtype());
  });
}

/// At most `most` updates at a time.
Array scatter_sorted_on_host(const Target& target, const Array& updates, const Case& c, const Array& index,
                             std::int64_t most, IndexFault& fault) {
  const DeviceArray from(updates);
  const DeviceArray places(index);
  return on_host::in_every_order([&] {
    DeviceArray to = target.on_host();
    for (std::int64_t begin = 0; begin < index.size(); begin += most) {
      const SortedUpdates range{begin, std::min(most, index.size() - begin), element_count(c.selected)};
      std::size_t bytes = 0;
      CHECK(cuda_kernels::scatter_workspace(range, bytes) == cudaSuccess);
      DeviceArray workspace = DeviceArray::unwritten(bytes);
      CHECK(cuda_kernels::launch_scatter_sorted(
                nullptr, target.kind, updates.dtype(), selection_of("scatter", c.selected, c.index, c.axis), range,
                from.data(), places.as<std::int64_t>(), to.data(), &fault, workspace.data(), bytes) == cudaSuccess);
    }
    return to.read(c.selected, updates.dtype());
  });
}

/// Rows added to rows of an output [rows, columns], at most `most` at a time.
Array add_rows_on_host(const Array& updates, const Array& index, const Shape& shape, std::int64_t most,
                       IndexFault& fault) {
  const DeviceArray from(updates);
  const DeviceArray places(index);
  return on_host::in_every_order([&] {
    DeviceArray to = Target{Scatter::add, Array::zeros(shape, updates.dtype(), cpu())}.on_host();
    for (std::int64_t begin = 0; begin < index.size(); begin += most) {
      const SortedUpdates range{begin, std::min(most, index.size() - begin), shape[0]};
      std::size_t bytes = 0;
      CHECK(cuda_kernels::scatter_workspace(range, bytes) == cudaSuccess);
      DeviceArray workspace = DeviceArray::unwritten(bytes);
      CHECK(cuda_kernels::launch_add_rows(nullptr, updates.dtype(), range, shape[1], from.data(),
                                          places.as<std::int64_t>(), to.data(), &fault, 0, workspace.data(),
                                          bytes) == cudaSuccess);
    }
    return to.read(shape, updates.dtype());
  });
}

TEST_CASE("rows are added to the rows that an index selects, in its order") {
  RandomViews views(33);
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t columns : {1, 3, 4, 32, 129, 260})
      for (const std::int64_t count : {1, 7, 90}) {
        CAPTURE(columns);
        CAPTURE(count);
        const std::int64_t rows = count == 90 ? 3 : 11;  // long runs, and rows that nothing is added to
        std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
        for (std::int64_t& number : numbers) number = views.between(0, rows - 1);
        const Array index = Array::from(numbers, {count}, cpu());
        const Array updates = filled(views, {count, columns}, dtype);
        const Array expected =
            scatter_add({rows, columns}, updates, 0, index.reshape({count, 1}).broadcast_to({count, columns}));
        const Case rows_of_it{{rows, columns}, {count, columns}, 0};
        Report none;
        for (const std::int64_t most : {std::int64_t{1000}, std::int64_t{5}})
          CHECK(on_host::differences(add_rows_on_host(updates, index, {rows, columns}, most, none.fault), expected,
                                     1e-6) == 0);
        none.check(IndexFault::Operation::none, rows_of_it);
        numbers[0] = rows;
        const Array wrong = Array::from(numbers, {count}, cpu());
        Report report;
        (void)add_rows_on_host(updates, wrong, {rows, columns}, 1000, report.fault);
        report.check(IndexFault::Operation::scatter_add, rows_of_it);
      }
}

TEST_CASE("gather selects elements of every size") {
  RandomViews views(27);
  for (const Case& c : cases())
    for (const DType dtype : kAllDTypes) {
      CAPTURE(to_string(c.index));
      const Array input = filled(views, c.selected, dtype);
      const Array index = some_index(views, c, 0);
      Report report;
      const Array found = gather_on_host(input, c, index, report.fault);
      CHECK(on_host::same_bits(found, gather(input, static_cast<std::int64_t>(c.axis), index)));
      report.check(IndexFault::Operation::none, c);
    }
}

TEST_CASE("gather by an index that is repeated") {
  RandomViews views(31);
  for (const Case& c : cases())
    for (std::size_t kept = 0; kept < c.index.size(); ++kept) {
      CAPTURE(to_string(c.index));
      CAPTURE(kept);
      const Array input = filled(views, c.selected, DType::f32);
      Array index = some_index(views, c, 0);
      for (std::size_t axis = 0; axis < c.index.size(); ++axis)
        if (axis != kept) index = index.slice(static_cast<std::int64_t>(axis), 0, 1);
      index = index.copy().broadcast_to(c.index);
      Report report;
      const Array found = gather_on_host(input, c, index, report.fault);
      CHECK(on_host::same_bits(found, gather(input, static_cast<std::int64_t>(c.axis), index.copy())));
    }
}

TEST_CASE("scatter_add by lines and by sorting adds the same") {
  RandomViews views(28);
  for (const Case& c : cases())
    for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      CAPTURE(to_string(c.selected));
      CAPTURE(to_string(c.index));
      CAPTURE(to_string(dtype));
      const Array updates = filled(views, c.index, dtype);
      const Array index = some_index(views, c, 0);
      const Array expected = scatter_add(c.selected, updates, static_cast<std::int64_t>(c.axis), index);
      Report report;
      const Target target = zeros(c, dtype);
      CHECK(on_host::differences(scatter_lines_on_host(target, updates, c, index, report.fault), expected, 1e-6) == 0);
      for (const std::int64_t most : {1 << 20, 333}) {
        const Array found = scatter_sorted_on_host(target, updates, c, index, most, report.fault);
        CHECK(on_host::differences(found, expected, 1e-6) == 0);
      }
      report.check(IndexFault::Operation::none, c);
    }
}

TEST_CASE("scatter by lines and by sorting sets the last, multiplies, and chooses") {
  RandomViews views(31);
  for (const Case& c : cases())
    for (const Scatter kind : {Scatter::set, Scatter::prod, Scatter::max, Scatter::min})
      for (const DType dtype : kAllDTypes) {
        if (kind != Scatter::set && (is_narrow(dtype) || dtype == DType::boolean)) continue;  // those come widened
        CAPTURE(to_string(c.index));
        CAPTURE(to_string(dtype));
        CAPTURE(static_cast<int>(kind));
        Array updates = filled(views, c.index, dtype);
        if (kind == Scatter::prod) {  // between 1/2 and 2, so that hundreds of them stay in range
          const Array one = Array::full({}, 1, dtype, cpu());
          updates = is_floating(dtype) ? apply(elementwise::Exp2{}, apply(elementwise::Sin{}, updates))
                                       : apply(elementwise::Maximum{}, updates, one);
        }
        if (is_floating(dtype) && kind != Scatter::prod) updates.slice(0, 0, 1).fill(std::nan(""));
        const Target target{kind, filled(views, c.selected, dtype)};
        const Array index = some_index(views, c, 0);
        const Array expected = scatter(kind, target.x, static_cast<std::int64_t>(c.axis), index, updates);
        Report report;
        CHECK(on_host::same_bits(scatter_lines_on_host(target, updates, c, index, report.fault), expected));
        for (const std::int64_t most : {1 << 20, 333}) {
          const Array found = scatter_sorted_on_host(target, updates, c, index, most, report.fault);
          if (kind == Scatter::prod)
            CHECK(on_host::differences(found, expected, 1e-4) == 0);
          else
            CHECK(on_host::same_bits(found, expected));
        }
        report.check(IndexFault::Operation::none, c);
      }
}

TEST_CASE("an index out of range selects nothing, and is reported") {
  RandomViews views(29);
  for (const Case& c : cases()) {
    CAPTURE(to_string(c.index));
    const Array index = some_index(views, c, 3);
    const Array input = filled(views, c.selected, DType::f32);
    const Array updates = filled(views, c.index, DType::f32);
    // What is expected: as if the faulty ones chose the first, with nothing there.
    const Array valid = index.copy();
    const Array taken = updates.copy();
    const Array kept = Array::full(c.index, 1, DType::f32, cpu());
    synchronize(cpu());
    for (std::int64_t i = 0; i < index.size(); ++i) {
      std::int64_t& place = valid.data<std::int64_t>()[i];
      if (place >= 0 && place < c.selected[c.axis]) continue;
      place = 0;
      taken.data<float>()[i] = kept.data<float>()[i] = 0;
    }
    const auto axis = static_cast<std::int64_t>(c.axis);
    const Array gathered = apply(elementwise::Multiply{}, gather(input, axis, valid), kept);
    const Array added = scatter_add(c.selected, taken, axis, valid);
    const Target nothing = zeros(c, DType::f32);

    Report gathering;
    CHECK(on_host::differences(gather_on_host(input, c, index, gathering.fault), gathered, 0) == 0);
    gathering.check(IndexFault::Operation::gather, c);
    Report by_lines;
    CHECK(on_host::differences(scatter_lines_on_host(nothing, updates, c, index, by_lines.fault), added, 1e-6) == 0);
    by_lines.check(IndexFault::Operation::scatter_add, c);
    Report sorted;
    CHECK(on_host::differences(scatter_sorted_on_host(nothing, updates, c, index, 1 << 20, sorted.fault), added,
                               1e-6) == 0);
    sorted.check(IndexFault::Operation::scatter_add, c);
    Report setting;
    scatter_lines_on_host({Scatter::set, nothing.x}, updates, c, index, setting.fault);
    setting.check(IndexFault::Operation::scatter, c);
  }
}

TEST_CASE("gather and scatter_add with fewer blocks than elements need") {
  RandomViews views(30);
  on_host::schedule.most_blocks = 2;
  const Case c{{40, 3}, {900, 3}, 0};
  const Array index = some_index(views, c, 0);
  const Array input = filled(views, c.selected, DType::f64);
  const Array updates = filled(views, c.index, DType::f64);
  Report report;
  CHECK(on_host::same_bits(gather_on_host(input, c, index, report.fault), gather(input, 0, index)));
  const Array expected = scatter_add(c.selected, updates, 0, index);
  const Target target = zeros(c, DType::f64);
  CHECK(on_host::differences(scatter_lines_on_host(target, updates, c, index, report.fault), expected, 1e-12) == 0);
  const Array sorted = scatter_sorted_on_host(target, updates, c, index, 1 << 20, report.fault);
  CHECK(on_host::differences(sorted, expected, 1e-12) == 0);
  on_host::schedule.most_blocks = ~0U;
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
