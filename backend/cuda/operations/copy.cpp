// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/copy.h>
#include <tutti/backend/cuda/plans/tile_plan.h>
#include <tutti/backend/cuda/runtime/peer_access.h>
#include <tutti/backend/operations/widening.h>

#include <cstring>

namespace tutti {

void CudaBackend::copy(const Array& from, const Array& to) {
  if (to.size() == 0) return;
  stream(to.device()).launch("copy", [&](cudaStream_t queue) {
    if (from.is_contiguous() && to.is_contiguous()) {
      TUTTI_CUDA(to.device(), "copy",
                 cudaMemcpyAsync(to.raw_data(), from.raw_data(), to.bytes(), cudaMemcpyDeviceToDevice, queue));
      return;
    }
    const Array* const inputs[] = {&from};
    for_each_piece("copy", to, inputs, [&](const ElementPlan& plan, std::span<const ElementMemory> memory) {
      const ElementBatch batch = make_batch(plan, memory);
      if (const std::optional<TileLayout> tiles = plan_tiles(plan))
        cuda_kernels::launch_transpose(queue, size_of(to.dtype()), *tiles, batch.output, batch.input[0]);
      else
        cuda_kernels::launch_copy(queue, size_of(to.dtype()), batch);
    });
  });
}

// On the target's compute stream, as what wrote the source on its own is ordered before it and what uses its memory
// next after it.
void CudaBackend::copy_from_device(const Array& from, const Array& to) {
  if (from.device().kind != DeviceKind::cuda) return Backend::copy_from_device(from, to);
  CudaStream& source = stream(from.device());
  CudaStream& target = stream(to.device());
  target.wait(source.record());
  try {
    target.launch("copy", [&](cudaStream_t queue) {
      cuda_runtime::queue_copy("copy", queue, to.device(), to.raw_data(), from.device(), from.raw_data(), to.bytes());
    });
    source.wait(target.record());
  } catch (...) {  // the source's memory shall not have another user before the copy is done
    (void)cuda_runtime::settled(cudaStreamSynchronize(target.handle()));
    throw;
  }
}

void CudaBackend::cast(const Array& from, const Array& to) {
  if (to.size() == 0) return;
  if (is_narrow(from) && to.dtype() != computed_in(from.dtype())) return cast(widened(from), to);
  stream(to.device()).launch("cast", [&](cudaStream_t queue) {
    const Array* const inputs[] = {&from};
    for_each_batch("cast", to, inputs, [&](const ElementBatch& batch) {
      cuda_kernels::launch_cast(queue, from.dtype(), to.dtype(), batch);
    });
  });
}

void CudaBackend::fill(const Array& to, Scalar value) {
  if (to.size() == 0) return;
  std::uint64_t element = 0;
  visit_dtype(to.dtype(), [&]<class T>(std::type_identity<T>) {
    const T typed = value.to<T>();
    std::memcpy(&element, &typed, sizeof(T));
  });
  stream(to.device()).launch("fill", [&](cudaStream_t queue) {
    for_each_batch("fill", to, {}, [&](const ElementBatch& batch) {
      cuda_kernels::launch_fill(queue, size_of(to.dtype()), element, batch);
    });
  });
}

void CudaBackend::arange(const Array& to, std::int64_t first, std::int64_t step) {
  stream(to.device()).launch("arange", [&](cudaStream_t queue) {
    cuda_kernels::launch_arange(queue, to.dtype(), to.raw_data(), to.size(), first, step);
  });
}

}  // namespace tutti
