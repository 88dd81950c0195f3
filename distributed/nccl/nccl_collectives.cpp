// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/nccl/nccl_collectives.h>

#include <tutti/backend/cuda/cuda_stream.h>
#include <tutti/backend/cuda/kernels/collective.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/nccl/nccl_group.h>
#include <tutti/distributed/nccl/nccl_task.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

using cuda_kernels::Combination;
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

/// The communication streams of the group's devices, for one launch.
class Streams {
 public:
  Streams(const NcclGroup& group, std::string_view operation) : group_(group), operation_(operation) {}

  CudaStream& of(std::size_t rank) const {
    const Device device = group_.devices()[rank];
    return static_cast<CudaStream&>(backend_for(device).communication_stream(device));
  }
  /// What is queued from now on comes after these events. A device waits for its own alone: others' work reaches it
  /// through NCCL, whose sender has waited.
  void wait_for(std::span<const Event> events) const {
    for (const Event& event : events) {
      const auto* recorded = dynamic_cast<const CudaEvent*>(event.state().get());
      for (std::size_t rank = 0; rank < group_.size(); ++rank)
        if (event.recorded() && (recorded == nullptr || recorded->device() == group_.devices()[rank]))
          of(rank).wait(event);
    }
  }
  /// Memory for the time of a launch. Its last user may still be queued on the compute stream.
  std::byte* workspace(std::size_t rank, std::size_t bytes, NcclTask& task) const {
    const Device device = group_.devices()[rank];
    auto storage = std::make_unique<Storage>(device, memory_pool(device), bytes);
    std::byte* data = storage->data();
    task.keep(std::move(storage));
    of(rank).wait(compute_stream(device).record());
    return data;
  }
  template <class F> void launch(std::size_t rank, F&& work) const {
    of(rank).launch(operation_, std::forward<F>(work));
  }
  /// Within a group of NCCL's, which starts nothing before its end: nothing may be waited for in it.
  template <class F> void submit(std::size_t rank, F&& work) const {
    const CurrentDevice current(group_.devices()[rank], operation_);
    work(of(rank).handle());
  }
  void copy(std::size_t rank, void* to, const void* from, std::size_t bytes) const {
    launch(rank, [&](cudaStream_t stream) {
      TUTTI_CUDA(group_.devices()[rank], operation_,
                 cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
    });
  }
  void clear(std::size_t rank, void* memory, std::size_t bytes) const {
    launch(rank, [&](cudaStream_t stream) {
      TUTTI_CUDA(group_.devices()[rank], operation_, cudaMemsetAsync(memory, 0, bytes, stream));
    });
  }
  void record_done(NcclTask& task) const {
    for (std::size_t rank = 0; rank < group_.size(); ++rank) task.set_done(group_.devices()[rank], of(rank).record());
  }

 private:
  const NcclGroup& group_;
  std::string_view operation_;
};

}  // namespace

void launch_all_reduce(const AllReduceRequest& request, NcclGroup& group, NcclTask& task) {
  constexpr std::string_view kName = "all_reduce";
  const Streams streams(group, kName);
  const Array& first = request.slices.front().gradient;
  std::vector<std::byte*> buffers(group.size(), nullptr);  // by rank
  std::vector<bool> contributes(group.size(), false);
  for (const AllReduceSlice& slice : request.slices) {
    const auto rank = static_cast<std::size_t>(group.rank_of(slice.gradient.device()));
    if (rank == group.size())
      raise<SyncError>("[all_reduce] {} is not in the group", to_string(slice.gradient.device()));
    buffers[rank] = slice.gradient.raw_data();
    contributes[rank] = slice.contributes;
    task.keep(slice.gradient);
  }
  streams.wait_for(request.ready);
  for (std::size_t rank = 0; rank < group.size(); ++rank) {
    if (contributes[rank]) continue;
    if (buffers[rank] == nullptr) buffers[rank] = streams.workspace(rank, first.bytes(), task);
    const Device device = group.devices()[rank];
    streams.of(rank).wait(compute_stream(device).record());  // the memory may have had another user
    streams.clear(rank, buffers[rank], first.bytes());
  }
  group.submit(kName, [&] {
    for (std::size_t rank = 0; rank < group.size(); ++rank)
      streams.submit(rank, [&](cudaStream_t stream) {
        TUTTI_NCCL(group.devices()[rank], kName,
                   ncclAllReduce(buffers[rank], buffers[rank], static_cast<std::size_t>(first.size()),
                                 nccl_type(first.dtype()), ncclSum, group.communicator(rank), stream));
      });
  });
  for (std::size_t rank = 0; rank < group.size(); ++rank)
    streams.launch(rank, [&](cudaStream_t stream) {
      cuda_kernels::launch_divide(stream, first.dtype(), buffers[rank], first.size(), request.denominator);
    });
  streams.record_done(task);
}

namespace {

/// One launch of a collective of the users' own, part by part. All that is sent goes in one NCCL group; what is
/// combined or divided comes after it.
class CollectiveLaunch {
 public:
  CollectiveLaunch(const CollectiveRequest& request, NcclGroup& group, NcclTask& task)
      : request_(request), group_(group), task_(task), streams_(group, kName) {}

  void run() {
    for (const Array& array : request_.inputs) task_.keep(array);
    for (const Array& array : request_.outputs) task_.keep(array);
    streams_.wait_for(request_.ready);
    for (const Array& output : request_.outputs)  // their memory may have had another user
      if (output.defined()) streams_.of(place_of(output)).wait(compute_stream(output.device()).record());
    for (const CollectivePart& part : request_.parts) plan(part);
    group_.submit(kName, [this] {
      for (const auto& send : sends_) send();
    });
    for (const auto& finish : after_) finish();
    streams_.record_done(task_);
  }

 private:
  using Place = CollectivePart::Place;
  static constexpr std::string_view kName = "collective";

  /// Its device's place in this process, for an array that is here.
  std::size_t place_of(const Array& array) const { return static_cast<std::size_t>(group_.rank_of(array.device())); }
  std::size_t rank_of(const std::vector<Array>& arrays, const Place& place) const {
    const Array& array = arrays[place.member];
    return array.defined() ? group_.first_rank() + place_of(array) : place.member;
  }
  std::byte* address(const std::vector<Array>& arrays, const Place& place) const {
    const Array& array = arrays[place.member];
    return array.raw_data() + place.offset * static_cast<std::int64_t>(size_of(array.dtype()));
  }
  double denominator(const CollectivePart& part) const {
    switch (request_.operation) {
      case CollectiveOperation::mean: return static_cast<double>(part.sources.size());
      case CollectiveOperation::sum: return request_.denominator;
      default: return 1.0;
    }
  }
  bool adds() const {
    return request_.operation == CollectiveOperation::sum || request_.operation == CollectiveOperation::mean;
  }

  // The usual sums of whole groups, which NCCL does best; its order is its own.
  bool is_sum_of_all(const CollectivePart& part) const {
    return adds() && part.sources.size() == group_.world() && group_.world() > 1 &&
           one_each(part.sources, request_.inputs) &&
           (part.targets.size() == 1 ||
            (part.targets.size() == group_.world() && one_each(part.targets, request_.outputs)));
  }
  bool one_each(const std::vector<Place>& places, const std::vector<Array>& arrays) const {
    std::vector<bool> seen(group_.world(), false);
    for (const Place& place : places) seen[rank_of(arrays, place)] = true;
    return std::ranges::all_of(seen, [](bool found) { return found; });
  }

  void plan(const CollectivePart& part) {
    if (part.count == 0 || part.targets.empty()) return;
    const DType dtype = dtype_;
    const std::size_t bytes = static_cast<std::size_t>(part.count) * size_of(dtype);
    if (part.sources.empty()) {
      for (const Place& target : part.targets)
        if (const Array& output = request_.outputs[target.member]; output.defined())
          streams_.clear(place_of(output), address(request_.outputs, target), bytes);
      return;
    }
    if (is_sum_of_all(part)) return plan_sum(part, dtype);
    for (const Place& target : part.targets) plan_target(part, target, dtype, bytes);
  }

  void plan_sum(const CollectivePart& part, DType dtype) {
    const bool everywhere = part.targets.size() > 1;
    const int root = everywhere ? 0 : static_cast<int>(rank_of(request_.outputs, part.targets.front()));
    std::vector<std::byte*> results(group_.size(), nullptr);
    for (const Place& target : part.targets)
      if (const Array& output = request_.outputs[target.member]; output.defined())
        results[place_of(output)] = address(request_.outputs, target);
    const auto count = static_cast<std::size_t>(part.count);
    for (const Place& source : part.sources) {
      if (!request_.inputs[source.member].defined()) continue;
      const std::size_t rank = place_of(request_.inputs[source.member]);
      const std::byte* from = address(request_.inputs, source);
      sends_.push_back([=, this, to = results[rank]] {
        streams_.submit(rank, [&](cudaStream_t stream) {
          const Device device = group_.devices()[rank];
          const ncclComm_t communicator = group_.communicator(rank);
          if (everywhere)
            TUTTI_NCCL(device, kName, ncclAllReduce(from, to, count, nccl_type(dtype), ncclSum, communicator, stream));
          else
            TUTTI_NCCL(device, kName,
                       ncclReduce(from, to, count, nccl_type(dtype), ncclSum, root, communicator, stream));
        });
      });
    }
    for (const Place& target : part.targets) divide(target, part, dtype);
  }

  void divide(const Place& target, const CollectivePart& part, DType dtype) {
    if (!request_.outputs[target.member].defined()) return;
    const std::size_t rank = place_of(request_.outputs[target.member]);
    after_.push_back([=, this, to = address(request_.outputs, target), by = denominator(part), count = part.count] {
      streams_.launch(rank, [&](cudaStream_t stream) { cuda_kernels::launch_divide(stream, dtype, to, count, by); });
    });
  }

  // The first source arrives in the target itself, the others beside it; all beside it where the target is a source
  // too, which its owner is sending at the same time.
  void plan_target(const CollectivePart& part, const Place& target, DType dtype, std::size_t bytes) {
    if (!request_.outputs[target.member].defined()) {
      for (const Place& source : part.sources) send(source, target, nullptr, bytes);
      return;
    }
    const std::size_t here = place_of(request_.outputs[target.member]);
    std::byte* const to = address(request_.outputs, target);
    const bool is_source = std::ranges::any_of(part.sources, [&](const Place& source) {
      return request_.inputs[source.member].defined() && address(request_.inputs, source) == to;
    });
    std::byte* const sum = is_source && part.sources.size() > 1 ? streams_.workspace(here, bytes, task_) : to;
    for (std::size_t i = 0; i < part.sources.size(); ++i) {
      std::byte* const arrives = i == 0 ? sum : streams_.workspace(here, bytes, task_);
      send(part.sources[i], target, arrives, bytes);
      if (i > 0)
        after_.push_back([=, this, count = part.count, combination = combination()] {
          streams_.launch(here, [&](cudaStream_t stream) {
            cuda_kernels::launch_combine(stream, combination, dtype, sum, arrives, count);
          });
        });
    }
    if (sum != to) after_.push_back([=, this] { streams_.copy(here, to, sum, bytes); });
    divide(target, part, dtype);
  }

  // This process's ends of it: none, one or both. All processes list transfers in the same order.
  void send(const Place& source, const Place& target, std::byte* to, std::size_t bytes) {
    const Array& input = request_.inputs[source.member];
    const Array& output = request_.outputs[target.member];
    const auto from_rank = static_cast<int>(rank_of(request_.inputs, source));
    const auto to_rank = static_cast<int>(rank_of(request_.outputs, target));
    const std::byte* const from = input.defined() ? address(request_.inputs, source) : nullptr;
    if (from_rank == to_rank) {
      if (from != to) streams_.copy(place_of(output), to, from, bytes);
      return;
    }
    if (input.defined())
      sends_.push_back([=, this, here = place_of(input)] {
        streams_.submit(here, [&](cudaStream_t stream) {
          TUTTI_NCCL(group_.devices()[here], kName,
                     ncclSend(from, bytes, ncclUint8, to_rank, group_.communicator(here), stream));
        });
      });
    if (output.defined())
      sends_.push_back([=, this, here = place_of(output)] {
        streams_.submit(here, [&](cudaStream_t stream) {
          TUTTI_NCCL(group_.devices()[here], kName,
                     ncclRecv(to, bytes, ncclUint8, from_rank, group_.communicator(here), stream));
        });
      });
  }

  Combination combination() const {
    switch (request_.operation) {
      case CollectiveOperation::max: return Combination::max;
      case CollectiveOperation::min: return Combination::min;
      default: return Combination::sum;
    }
  }

  /// Of what is here; other processes' arrays have the same.
  static DType dtype_of_all(const CollectiveRequest& request) {
    for (const auto* arrays : {&request.outputs, &request.inputs})
      for (const Array& array : *arrays)
        if (array.defined()) return array.dtype();
    return DType::f32;
  }

  const CollectiveRequest& request_;
  NcclGroup& group_;
  NcclTask& task_;
  DType dtype_ = dtype_of_all(request_);
  Streams streams_;
  std::vector<std::function<void()>> sends_;
  std::vector<std::function<void()>> after_;
};

}  // namespace

void launch_collective(const CollectiveRequest& request, NcclGroup& group, NcclTask& task) {
  CollectiveLaunch(request, group, task).run();
}

}  // namespace tutti
