// SPDX-License-Identifier: Apache-2.0
// The way of an index out of range from the kernel that finds it to the host. What the kernels find, and that they
// touch nothing there, is tested in gather_kernels_test.cpp.
#include <tutti/backend/calls/index_meaning.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/backend/cuda/kernels/parts/selection.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/tests/backend/cuda/operations/operation_cases.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>

#include <doctest/doctest.h>

namespace tutti::testing {
namespace {

using cuda_kernels::IndexFault;
using cuda_kernels::Selection;

constexpr Device kDevice = kCaseDevice;

/// The kernel of that name, whose first argument is the selection, reports `index`.
void report_from(RecordingCuda& machine, std::string_view kernel, std::size_t fault_argument,
                 IndexFault::Operation operation, std::int64_t index) {
  machine.on_kernel(kernel, [=](const KernelLaunch& launch) {
    const auto selection = *static_cast<const Selection*>(launch.arguments[0]);
    auto* const fault = *static_cast<IndexFault* const*>(launch.arguments[fault_argument]);
    return [=] { selection.report(fault, operation, index); };
  });
}

TEST_CASE("an index out of range is an error of the next wait, with the operation, the axis and the device, once") {
  RecordingCuda machine;
  RenewedBackend backend;
  const Array input = Array::zeros({3, 5}, DType::f32, kDevice);

  report_from(machine, "gather_elements", 4, IndexFault::Operation::gather, 12);
  const Array gathered = gather(input, 1, index_zeros({3, 7}));
  CHECK_THROWS_WITH_AS(synchronize(kDevice), "[gather] cuda:1: index 12 is out of range for axis 1 of length 5",
                       ShapeError);
  CHECK_NOTHROW(synchronize(kDevice));

  report_from(machine, "scatter_lines", 4, IndexFault::Operation::scatter_add, -1);
  const Array by_lines = scatter_add({9, 5}, input, 0, index_zeros({3, 5}));
  CHECK_THROWS_WITH_AS(by_lines.to_vector<float>(),
                       "[scatter_add] cuda:1: index -1 is out of range for axis 0 of length 9", ShapeError);

  report_from(machine, "list_places", 6, IndexFault::Operation::scatter_add, 9);
  const Array updates = Array::zeros({100, 5}, DType::f32, kDevice);
  const Array sorted = scatter_add({9, 5}, updates, 0, index_zeros({100, 5}));
  CHECK_THROWS_WITH_AS(synchronize(kDevice), "[scatter_add] cuda:1: index 9 is out of range for axis 0 of length 9",
                       ShapeError);
  CHECK_NOTHROW(synchronize(kDevice));
}

TEST_CASE("an index out of range is told as what it meant where its kernel was queued") {
  RecordingCuda machine;
  RenewedBackend backend;
  const Array input = Array::zeros({3, 5}, DType::f32, kDevice);
  const IndexMeaning target{.operation = "cross_entropy", .index = "target", .range = "classes"};
  const IndexMeaning position{.operation = "index", .index = "position", .range = "elements", .from_back = true};
  const auto wrong = [&](std::int64_t index, const IndexMeaning& meaning) {
    report_from(machine, "gather_elements", 4, IndexFault::Operation::gather, index);
    const IndexScope scope(meaning);
    return gather(input, 1, index_zeros({3, 7}));
  };
  for (int repeated = 0; repeated < 20; ++repeated) {
    const Array first = wrong(12, target);
    CHECK_THROWS_WITH_AS(synchronize(kDevice), "[cross_entropy] cuda:1: target 12 is out of range for 5 classes",
                         ShapeError);
    const Array second = wrong(-4, position);
    CHECK_THROWS_WITH_AS(synchronize(kDevice), "[index] cuda:1: position -9 is out of range for 5 elements",
                         ShapeError);
  }
  // An operation and its gradient report the same index: it is told once, by its meaning.
  report_from(machine, "scatter_lines", 4, IndexFault::Operation::scatter_add, 12);
  const Array places = index_zeros({3, 5});
  const Array forward = wrong(12, target);
  const Array backward = scatter_add({9, 5}, input, 0, places);
  CHECK_THROWS_WITH_AS(synchronize(kDevice), "[cross_entropy] cuda:1: target 12 is out of range for 5 classes",
                       ShapeError);
  CHECK_NOTHROW(synchronize(kDevice));
  report_from(machine, "gather_elements", 4, IndexFault::Operation::gather, 12);
  const Array plain = gather(input, 1, index_zeros({3, 7}));
  CHECK_THROWS_WITH_AS(synchronize(kDevice), "[gather] cuda:1: index 12 is out of range for axis 1 of length 5",
                       ShapeError);
  CHECK_NOTHROW(synchronize(kDevice));
}

TEST_CASE("an index out of range in a replay is told by its meaning, also when the capture has gone") {
  RecordingCuda machine({.deferred = true});
  RenewedBackend backend;
  const Array input = Array::zeros({3, 5}, DType::f32, kDevice);
  const Array places = index_zeros({3, 7});
  synchronize(kDevice);
  bool graphs = false;
  SUBCASE("calls") {}
  SUBCASE("graphs") { graphs = true; }
  {
    Capture capture(kDevice);
    capture.use_graphs(graphs);
    {
      const CaptureScope scope(capture);
      const IndexMeaning target{.operation = "cross_entropy", .index = "target", .range = "classes"};
      const IndexScope meaning(target);
      for (int i = 0; i < 3; ++i) (void)gather(input, 1, places);
    }
    synchronize(kDevice);
    report_from(machine, "gather_elements", 4, IndexFault::Operation::gather, 12);
    capture.run(0, capture.tape().size());
    CHECK(capture.graphs() == (graphs ? 1 : 0));
  }
  CHECK_THROWS_WITH_AS(synchronize(kDevice), "[cross_entropy] cuda:1: target 12 is out of range for 5 classes",
                       ShapeError);
  CHECK_NOTHROW(synchronize(kDevice));
}

TEST_CASE("an index out of range is not lost where somebody else's memory is given back") {
  RecordingCuda machine({.deferred = true});
  RenewedBackend backend;
  const Array input = Array::zeros({3, 5}, DType::f32, kDevice);
  synchronize(kDevice);
  report_from(machine, "gather_elements", 4, IndexFault::Operation::gather, 12);
  const Array gathered = gather(input, 1, index_zeros({3, 7}));
  {
    const Array lent = Array::zeros({4}, DType::f32, kDevice);
    const Storage foreign(kDevice, lent.raw_data(), 16, lent.storage());
  }
  CHECK_THROWS_AS(synchronize(kDevice), ShapeError);
}

TEST_CASE("an index out of range on one device is no error of another") {
  RecordingCuda machine;
  RenewedBackend backend;
  report_from(machine, "gather_elements", 4, IndexFault::Operation::gather, 3);
  const Array gathered = gather(Array::zeros({3}, DType::f32, kDevice), 0, index_zeros({1}));
  CHECK_NOTHROW(synchronize(cuda(0)));
  CHECK_THROWS_AS(synchronize(kDevice), ShapeError);
}

}  // namespace
}  // namespace tutti::testing
