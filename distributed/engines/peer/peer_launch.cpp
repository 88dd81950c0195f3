// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/peer/peer_launch.h>

#include <tutti/backend/cuda/kernels/slices.h>
#include <tutti/backend/cuda/runtime/gpu_mapping.h>
#include <tutti/backend/cuda/runtime/peer_access.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/peer/slice_table.h>

#include <algorithm>
#include <cstddef>

namespace tutti {

using cuda_kernels::Combination;
using cuda_kernels::SliceOperation;
using cuda_kernels::SliceTable;
using cuda_kernels::SliceWire;

CudaStream& PeerStreams::on_gpu_of(Device device) const {
  for (CudaStream* stream : streams_)
    if (device.kind == DeviceKind::cuda && cuda_runtime::gpu_of(stream->device()) == cuda_runtime::gpu_of(device))
      return *stream;
  raise<SyncError>("[{}] {} is not in the group", operation_, to_string(device));
}

void PeerStreams::wait_for(std::span<const Event> events) const {
  for (CudaStream* stream : streams_)
    for (const Event& event : events)
      if (event.recorded()) stream->wait(event);
}

void PeerStreams::wait_for_users(std::span<const Device> devices) const {
  std::vector<Event> used;
  for (const Device device : devices) used.push_back(compute_stream(device).record());
  wait_for(used);
}

void PeerStreams::copy(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes) const {
  if (bytes == 0 || to == from) return;
  on_gpu_of(to_device).launch(operation_, [&](cudaStream_t stream) {
    cuda_runtime::queue_copy(operation_, stream, to_device, to, from_device, from, bytes);
  });
}

void PeerStreams::copy(const Array& from, const Array& to) const {
  copy(to.device(), to.raw_data(), from.device(), from.raw_data(), to.bytes());
}

void PeerStreams::clear(Device device, void* memory, std::size_t bytes) const {
  on_gpu_of(device).launch(operation_, [&](cudaStream_t stream) {
    TUTTI_CUDA(device, operation_, cudaMemsetAsync(memory, 0, bytes, stream));
  });
}

namespace {

SliceWire wire_of(GradientWire wire) {
  switch (wire) {
    case GradientWire::bf16: return SliceWire::bf16;
    case GradientWire::f16: return SliceWire::f16;
    case GradientWire::native: break;
  }
  return SliceWire::native;
}

/// The same slices from a byte on.
SliceTable advanced(SliceTable table, std::size_t bytes) {
  for (std::int32_t i = 0; i < table.sources; ++i)
    table.source[i] = static_cast<const std::byte*>(table.source[i]) + bytes;
  for (std::int32_t i = 0; i < table.targets; ++i) table.target[i] = static_cast<std::byte*>(table.target[i]) + bytes;
  return table;
}

/// Where the GPU's share of the elements begins: at 128 bytes, so that no line of memory is two GPUs'.
std::int64_t share_begin(std::int64_t count, DType dtype, std::size_t gpu, std::size_t gpus) {
  const auto line = static_cast<std::int64_t>(128 / size_of(dtype));
  const std::int64_t lines = (count + line - 1) / line;
  return std::min(count, lines * static_cast<std::int64_t>(gpu) / static_cast<std::int64_t>(gpus) * line);
}

}  // namespace

void launch_all_reduce(const AllReduceRequest& request, const PeerStreams& streams) {
  SliceTable table;
  std::vector<Device> silent;
  for (std::size_t i = 0; i < request.slices.size(); ++i) {
    const AllReduceSlice& slice = request.slices[i];
    const Array& gradient = slice.gradient;
    (void)streams.on_gpu_of(gradient.device());
    add_target(streams.operation(), table, gradient.raw_data());
    if (slice.contributes)
      add_source(streams.operation(), table, gradient.raw_data(), request.number_of(i));
    else
      silent.push_back(gradient.device());  // nobody may have said from when on it may be written
  }
  streams.wait_for(request.ready);
  streams.wait_for_users(silent);
  const Array& first = request.slices.front().gradient;
  const SliceOperation operation{
      .denominator = request.denominator, .wire = wire_of(request.wire), .wire_scale = request.wire_scale};
  const bool stays = table.sources == 1 && table.targets == 1 && operation.denominator == 1.0;
  if (stays && operation.wire == SliceWire::native) return;
  for (std::size_t gpu = 0; gpu < streams.size(); ++gpu) {
    const std::int64_t begin = share_begin(first.size(), first.dtype(), gpu, streams.size());
    const std::int64_t end = share_begin(first.size(), first.dtype(), gpu + 1, streams.size());
    if (begin == end) continue;
    streams[gpu].launch(streams.operation(), [&](cudaStream_t stream) {
      cuda_kernels::launch_combine_slices(stream, first.dtype(),
                                          advanced(table, static_cast<std::size_t>(begin) * size_of(first.dtype())),
                                          end - begin, operation);
    });
  }
}

namespace {

/// A collective of the users' own, part by part, each on its first target's GPU.
class PeerCollectiveLaunch {
 public:
  PeerCollectiveLaunch(const CollectiveRequest& request, const PeerStreams& streams)
      : request_(request), streams_(streams) {}

  void run() const {
    streams_.wait_for(request_.ready);
    std::vector<Device> written;
    for (const Array& output : request_.outputs)
      if (output.defined() && std::ranges::find(written, output.device()) == written.end())
        written.push_back(output.device());
    streams_.wait_for_users(written);
    for (const CollectivePart& part : request_.parts)
      if (part.count > 0 && !part.targets.empty()) run(part);
  }

 private:
  using Place = CollectivePart::Place;

  void run(const CollectivePart& part) const {
    const Array& first = output(part.targets.front());
    const std::size_t bytes = static_cast<std::size_t>(part.count) * size_of(first.dtype());
    if (part.sources.empty()) {
      for (const Place& target : part.targets)
        streams_.clear(output(target).device(), address(request_.outputs, target), bytes);
    } else if (part.sources.size() == 1 && request_.denominator == 1.0) {
      for (const Place& target : part.targets)
        streams_.copy(output(target).device(), address(request_.outputs, target),
                      request_.inputs[part.sources.front().member].device(),
                      address(request_.inputs, part.sources.front()), bytes);
    } else {
      combine(part, first);
    }
  }

  void combine(const CollectivePart& part, const Array& first) const {
    SliceTable table;
    for (const Place& source : part.sources)
      add_source(streams_.operation(), table, address(request_.inputs, source), source.number);
    for (const Place& target : part.targets) add_target(streams_.operation(), table, address(request_.outputs, target));
    streams_.on_gpu_of(first.device()).launch(streams_.operation(), [&](cudaStream_t stream) {
      cuda_kernels::launch_combine_slices(stream, first.dtype(), table, part.count, operation(part));
    });
  }

  SliceOperation operation(const CollectivePart& part) const {
    switch (request_.operation) {
      case CollectiveOperation::max: return {.combination = Combination::max};
      case CollectiveOperation::min: return {.combination = Combination::min};
      case CollectiveOperation::mean: return {.denominator = static_cast<double>(part.sources.size())};
      case CollectiveOperation::sum: break;
    }
    return {.denominator = request_.denominator};
  }

  const Array& output(const Place& target) const { return request_.outputs[target.member]; }
  static std::byte* address(const std::vector<Array>& arrays, const Place& place) {
    const Array& array = arrays[place.member];
    return array.raw_data() + place.offset * static_cast<std::int64_t>(size_of(array.dtype()));
  }

  const CollectiveRequest& request_;
  const PeerStreams& streams_;
};

}  // namespace

void launch_collective(const CollectiveRequest& request, const PeerStreams& streams) {
  PeerCollectiveLaunch(request, streams).run();
}

namespace {

void divide(const Array& values, double denominator, const PeerStreams& streams) {
  if (values.size() == 0 || denominator == 1.0) return;
  SliceTable table;
  add_source(streams.operation(), table, values.raw_data(), 0);
  add_target(streams.operation(), table, values.raw_data());
  streams.on_gpu_of(values.device()).launch(streams.operation(), [&](cudaStream_t stream) {
    cuda_kernels::launch_combine_slices(stream, values.dtype(), table, values.size(), {.denominator = denominator});
  });
}

}  // namespace

void launch_sparse(const SparseReduction& request, const PeerStreams& streams,
                   const std::function<void(const Array&)>& keep) {
  std::int64_t count = 0;
  for (const auto& contribution : request.contributions)
    for (const SparseGradient& part : contribution.parts) count += part.count();
  Shape shape = request.parameter.shape;
  shape[0] = count;
  streams.wait_for(request.ready);
  for (std::size_t member = 0; member < request.receivers.size(); ++member) {
    if (!request.result->receives[member]) continue;
    const Device device = request.receivers[member];
    const SparseGradient sum{Array::empty({count}, DType::i64, device),
                             Array::empty(shape, request.parameter.dtype, device), request.parameter.shape, false};
    keep(sum.indices);
    keep(sum.rows);
    streams.wait_for_users({&device, 1});
    std::int64_t row = 0;
    for (const auto& contribution : request.contributions)
      for (const SparseGradient& part : contribution.parts) {
        streams.copy(part.indices, sum.indices.slice(0, row, row + part.count()));
        streams.copy(part.rows, sum.rows.slice(0, row, row + part.count()));
        row += part.count();
      }
    divide(sum.rows, request.denominator, streams);
    request.result->gradients[member] = {sum};
  }
}

}  // namespace tutti
