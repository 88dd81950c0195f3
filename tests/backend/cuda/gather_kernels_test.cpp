// SPDX-License-Identifier: Apache-2.0
// The kernels of gather and scatter_add on the host against the CPU backend.
#include <tutti/backend/cuda/kernels/gather.h>
#include <tutti/backend/cuda/kernels/scatter_add.h>
#include <tutti/backend/cuda/selection.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random_views.h>

#include <doctest/doctest.h>

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
    cuda_kernels::launch_gather(nullptr, input.dtype(), selection_of("gather", c.selected, c.index, c.axis),
                                from.data(), places.as<std::int64_t>(), to.data(), &fault);
    return to.read(index.shape(), input.dtype());
  });
}

/// The output, to add to.
DeviceArray zeros(const Case& c, DType dtype) {
  const auto bytes = static_cast<std::size_t>(element_count(c.selected)) * size_of(dtype);
  DeviceArray to = DeviceArray::unwritten(bytes);
  std::memset(to.data(), 0, bytes);
  return to;
}

Array scatter_lines_on_host(const Array& updates, const Case& c, const Array& index, IndexFault& fault) {
  const DeviceArray from(updates);
  const DeviceArray places(index);
  return on_host::in_every_order([&] {
    DeviceArray to = zeros(c, updates.dtype());
    cuda_kernels::launch_scatter_add_lines(nullptr, updates.dtype(),
                                           selection_of("scatter_add", c.selected, c.index, c.axis), from.data(),
                                           places.as<std::int64_t>(), to.data(), &fault);
    return to.read(c.selected, updates.dtype());
  });
}

/// At most `most` updates at a time.
Array scatter_sorted_on_host(const Array& updates, const Case& c, const Array& index, std::int64_t most,
                             IndexFault& fault) {
  const DeviceArray from(updates);
  const DeviceArray places(index);
  return on_host::in_every_order([&] {
    DeviceArray to = zeros(c, updates.dtype());
    for (std::int64_t begin = 0; begin < index.size(); begin += most) {
      const SortedUpdates range{begin, std::min(most, index.size() - begin), element_count(c.selected)};
      std::size_t bytes = 0;
      CHECK(cuda_kernels::scatter_add_workspace(range, bytes) == cudaSuccess);
      DeviceArray workspace = DeviceArray::unwritten(bytes);
      CHECK(cuda_kernels::launch_scatter_add_sorted(
                nullptr, updates.dtype(), selection_of("scatter_add", c.selected, c.index, c.axis), range, from.data(),
                places.as<std::int64_t>(), to.data(), &fault, workspace.data(), bytes) == cudaSuccess);
    }
    return to.read(c.selected, updates.dtype());
  });
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
      CHECK(on_host::differences(scatter_lines_on_host(updates, c, index, report.fault), expected, 1e-6) == 0);
      for (const std::int64_t most : {1 << 20, 333})
        CHECK(on_host::differences(scatter_sorted_on_host(updates, c, index, most, report.fault), expected, 1e-6) == 0);
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

    Report gathering;
    CHECK(on_host::differences(gather_on_host(input, c, index, gathering.fault), gathered, 0) == 0);
    gathering.check(IndexFault::Operation::gather, c);
    Report by_lines;
    CHECK(on_host::differences(scatter_lines_on_host(updates, c, index, by_lines.fault), added, 1e-6) == 0);
    by_lines.check(IndexFault::Operation::scatter_add, c);
    Report sorted;
    CHECK(on_host::differences(scatter_sorted_on_host(updates, c, index, 1 << 20, sorted.fault), added, 1e-6) == 0);
    sorted.check(IndexFault::Operation::scatter_add, c);
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
  CHECK(on_host::differences(scatter_lines_on_host(updates, c, index, report.fault), expected, 1e-12) == 0);
  CHECK(on_host::differences(scatter_sorted_on_host(updates, c, index, 1 << 20, report.fault), expected, 1e-12) == 0);
  on_host::schedule.most_blocks = ~0U;
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
