// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/sort.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <limits>

namespace tutti {

using cuda_kernels::SortedLines;

void CudaBackend::arg_sort(const Array& input, std::size_t axis, bool descending, const Array& output) {
  const Device device = output.device();
  const auto lines = cuda_kernels::AxisLines::of(input.shape(), axis);
  if (lines.length > std::numeric_limits<std::uint32_t>::max())
    raise<ShapeError>("[argsort] axis {} of {} is longer than CUDA devices sort", axis, to_string(input.shape()));
  const std::int64_t together = std::max<std::int64_t>(1, cuda_kernels::kMostSortedTogether / lines.length);
  stream(device).launch("argsort", [&](cudaStream_t s) {
    for (std::int64_t begin = 0; begin < lines.count; begin += together) {
      const SortedLines range{lines, begin, std::min(together, lines.count - begin), descending};
      std::size_t bytes = 0;
      TUTTI_CUDA(device, "argsort", cuda_kernels::arg_sort_workspace(input.dtype(), range, bytes));
      const Storage scratch = workspace(device, bytes);
      TUTTI_CUDA(device, "argsort",
                 cuda_kernels::launch_arg_sort(s, input.dtype(), range, input.raw_data(), output.data<std::int64_t>(),
                                               scratch.data(), bytes));
    }
  });
}

}  // namespace tutti
