// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/gather.h>
#include <tutti/backend/cuda/kernels/scatter.h>
#include <tutti/backend/cuda/selection.h>
#include <tutti/backend/widening.h>

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

void CudaBackend::scatter(Scatter kind, const Array& updates, std::size_t axis, const Array& index,
                          const Array& output) {
  if (kind == Scatter::add && is_narrow(output)) {
    const Array wide = widened(output);
    scatter(kind, widened(updates), axis, index, wide);
    return cast(wide, output);
  }
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

}  // namespace tutti
