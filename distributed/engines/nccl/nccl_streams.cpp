// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/nccl/nccl_streams.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/nccl/nccl_task.h>
#include <tutti/distributed/engines/peer/slice_table.h>

#include <memory>
#include <vector>

namespace tutti {

using cuda_kernels::SliceOperation;
using cuda_kernels::SliceTable;
using cuda_runtime::CurrentDevice;

namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return ncclFloat32;
    case DType::f64: return ncclFloat64;
    case DType::i32: return ncclInt32;
    case DType::i64: return ncclInt64;
    default: return ncclUint8;
  }
}

}  // namespace

CudaStream& NcclStreams::of(std::size_t place) const {
  const Device device = group_.devices()[place];
  return static_cast<CudaStream&>(backend_for(device).communication_stream(device));
}

std::size_t NcclStreams::place_of(Device device) const {
  const auto place = static_cast<std::size_t>(group_.rank_of(device));
  if (place == group_.size()) raise<SyncError>("[{}] {} is not in the group", operation_, to_string(device));
  return place;
}

// A task of this engine is launched by now: no thread may wait on the host for it here, as this one alone ends it.
void NcclStreams::wait_for(std::span<const Event> events) const {
  for (const Event& event : events) {
    if (const auto* end = dynamic_cast<const TaskEvent*>(event.state().get()))
      if (const std::vector<Event> queued = end->on_streams(); !queued.empty()) {
        wait_for(queued);
        continue;
      }
    const auto* recorded = dynamic_cast<const CudaEvent*>(event.state().get());
    for (std::size_t place = 0; place < group_.size(); ++place)
      if (event.recorded() && (recorded == nullptr || recorded->device() == group_.devices()[place]))
        of(place).wait(event);
  }
}

void NcclStreams::wait_for_users(std::size_t place) const {
  of(place).wait(compute_stream(group_.devices()[place]).record());
}

std::byte* NcclStreams::workspace(std::size_t place, std::size_t bytes, NcclTask& task) const {
  const Device device = group_.devices()[place];
  auto storage = std::make_unique<Storage>(device, memory_pool(device), bytes);
  std::byte* data = storage->data();
  task.keep(std::move(storage));
  wait_for_users(place);
  return data;
}

void NcclStreams::copy(std::size_t place, void* to, const void* from, std::size_t bytes) const {
  launch(place, [&](cudaStream_t stream) {
    TUTTI_CUDA(group_.devices()[place], operation_, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
  });
}

void NcclStreams::clear(std::size_t place, void* memory, std::size_t bytes) const {
  launch(place, [&](cudaStream_t stream) {
    TUTTI_CUDA(group_.devices()[place], operation_, cudaMemsetAsync(memory, 0, bytes, stream));
  });
}

void NcclStreams::combine(std::size_t place, DType dtype, const SliceTable& table, std::int64_t count,
                          const SliceOperation& operation) const {
  launch(place,
         [&](cudaStream_t stream) { cuda_kernels::launch_combine_slices(stream, dtype, table, count, operation); });
}

void NcclStreams::divide(std::size_t place, DType dtype, std::byte* values, std::int64_t count,
                         double denominator) const {
  if (denominator == 1.0) return;
  SliceTable table;
  add_source(operation_, table, values, 0);
  add_target(operation_, table, values);
  combine(place, dtype, table, count, {.denominator = denominator});
}

void NcclStreams::send(std::size_t place, const void* from, std::size_t bytes, std::size_t to_rank) const {
  const CurrentDevice current(group_.devices()[place], operation_);
  TUTTI_NCCL(
      group_.devices()[place], operation_,
      ncclSend(from, bytes, ncclUint8, static_cast<int>(to_rank), group_.communicator(place), of(place).handle()));
}

void NcclStreams::receive(std::size_t place, void* to, std::size_t bytes, std::size_t from_rank) const {
  const CurrentDevice current(group_.devices()[place], operation_);
  TUTTI_NCCL(
      group_.devices()[place], operation_,
      ncclRecv(to, bytes, ncclUint8, static_cast<int>(from_rank), group_.communicator(place), of(place).handle()));
}

void NcclStreams::all_reduce(std::size_t place, const void* from, void* to, std::int64_t count, DType dtype) const {
  const CurrentDevice current(group_.devices()[place], operation_);
  TUTTI_NCCL(group_.devices()[place], operation_,
             ncclAllReduce(from, to, static_cast<std::size_t>(count), nccl_type(dtype), ncclSum,
                           group_.communicator(place), of(place).handle()));
}

void NcclStreams::reduce(std::size_t place, const void* from, void* to, std::int64_t count, DType dtype,
                         std::size_t root) const {
  const CurrentDevice current(group_.devices()[place], operation_);
  TUTTI_NCCL(group_.devices()[place], operation_,
             ncclReduce(from, to, static_cast<std::size_t>(count), nccl_type(dtype), ncclSum, static_cast<int>(root),
                        group_.communicator(place), of(place).handle()));
}

void NcclStreams::record_begun(NcclTask& task) const {
  if (!task.begun().empty()) return;
  for (std::size_t place = 0; place < group_.size(); ++place)
    task.set_begun(group_.devices()[place], of(place).record());
}

void NcclStreams::record_done(NcclTask& task) const {
  for (std::size_t place = 0; place < group_.size(); ++place)
    task.set_done(group_.devices()[place], of(place).record());
}

}  // namespace tutti
