// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/gather.h>
#include <tutti/backend/cuda/kernels/scatter.h>
#include <tutti/backend/cuda/plans/selection.h>
#include <tutti/backend/operations/widening.h>

#include <algorithm>

namespace tutti {

using cuda_kernels::Selection;
using cuda_kernels::SortedUpdates;

void CudaBackend::gather(const Array& input, std::size_t axis, const Array& given, const Array& output) {
  // Axes of a contiguous index are joined where the shapes allow it, those of others not always.
  const Array index = given.rank() > cuda_kernels::StridedAxes::kMost ? given.contiguous() : given;
  const Selection selection = selection_of("gather", input.shape(), index.shape(), index.strides(), axis);
  const Device device = output.device();
  Context& own = context(device);
  stream(device).launch("gather", [&](cudaStream_t queue) {
    cuda_kernels::launch_gather(queue, input.dtype(), selection, input.raw_data(), index.data<std::int64_t>(),
                                output.raw_data(), own.index_faults.report());
  });
}

namespace {

constexpr std::int64_t kFewestColumns = 8;  // a warp takes them
constexpr std::int64_t kMostAlike = 256;    // rows that are added to one, on the average: one warp after the other

/// The numbers of the rows that an index along the first axis selects whole; undefined if it does not, and where
/// elements are better taken by themselves.
Array selected_rows(const Array& index, std::size_t axis, const Shape& selected) {
  if (axis != 0 || index.size() < kFewestColumns * index.shape()[0]) return {};
  if (index.shape()[0] > kMostAlike * selected[0]) return {};
  Array first = index;
  for (std::size_t i = 1; i < index.rank(); ++i) {
    if (index.shape()[i] != selected[i] || (index.shape()[i] > 1 && index.strides()[i] != 0)) return {};
    first = first.slice(static_cast<std::int64_t>(i), 0, 1);
  }
  return first.contiguous();
}

}  // namespace

void CudaBackend::scatter(Scatter kind, const Array& updates, std::size_t axis, const Array& given,
                          const Array& output) {
  if (kind == Scatter::add && is_narrow(output)) {
    const Array wide = widened(output);
    scatter(kind, widened(updates), axis, given, wide);
    return cast(wide, output);
  }
  if (kind == Scatter::add && is_floating(output.dtype()))
    if (const Array rows = selected_rows(given, axis, output.shape()); rows.defined())
      return add_rows(updates, rows, output);
  const Array index = given.contiguous();
  const char* const name = kind == Scatter::add ? "scatter_add" : "scatter";
  const Device device = output.device();
  const Selection selection = selection_of(name, output.shape(), index.shape(), axis);
  Context& own = context(device);
  const auto* const places = index.data<std::int64_t>();
  stream(device).launch(name, [&](cudaStream_t queue) {
    if (selection.length <= cuda_kernels::kShortLine) {
      cuda_kernels::launch_scatter_lines(queue, kind, updates.dtype(), selection, updates.raw_data(), places,
                                         output.raw_data(), own.index_faults.report());
      return;
    }
    for (std::int64_t begin = 0; begin < selection.size; begin += cuda_kernels::kMostSorted) {
      const SortedUpdates range{begin, std::min(cuda_kernels::kMostSorted, selection.size - begin), output.size()};
      std::size_t bytes = 0;
      TUTTI_CUDA(device, name, cuda_kernels::scatter_workspace(range, bytes));
      const Storage scratch = workspace(device, bytes);
      TUTTI_CUDA(device, name,
                 cuda_kernels::launch_scatter_sorted(queue, kind, updates.dtype(), selection, range, updates.raw_data(),
                                                     places, output.raw_data(), own.index_faults.report(),
                                                     scratch.data(), bytes));
    }
  });
}

void CudaBackend::add_rows(const Array& updates, const Array& rows, const Array& output) {
  const Device device = output.device();
  const std::int64_t columns = updates.size() / rows.size();
  Context& own = context(device);
  stream(device).launch("scatter_add", [&](cudaStream_t queue) {
    for (std::int64_t begin = 0; begin < rows.size(); begin += cuda_kernels::kMostSorted) {
      const SortedUpdates range{begin, std::min(cuda_kernels::kMostSorted, rows.size() - begin), output.shape()[0]};
      std::size_t bytes = 0;
      TUTTI_CUDA(device, "scatter_add", cuda_kernels::scatter_workspace(range, bytes));
      const Storage scratch = workspace(device, bytes);
      TUTTI_CUDA(device, "scatter_add",
                 cuda_kernels::launch_add_rows(queue, updates.dtype(), range, columns, updates.raw_data(),
                                               rows.data<std::int64_t>(), output.raw_data(), own.index_faults.report(),
                                               /*axis=*/0, scratch.data(), bytes));
    }
  });
}

}  // namespace tutti
