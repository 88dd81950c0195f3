// SPDX-License-Identifier: Apache-2.0
// Gradients, dense and sparse.
#include <tutti/distributed/engines/nccl/nccl_collectives.h>

#include <tutti/backend/cuda/kernels/wire.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/engines/nccl/nccl_streams.h>
#include <tutti/distributed/engines/nccl/nccl_task.h>

#include <algorithm>
#include <numeric>
#include <string_view>

namespace tutti {

namespace {

class AllReduceLaunch {
 public:
  AllReduceLaunch(const AllReduceRequest& request, NcclGroup& group, NcclTask& task)
      : request_(request),
        first_(request.slices.front().gradient),
        group_(group),
        task_(task),
        streams_(group, "all_reduce"),
        values_(group.size(), nullptr),
        contributes_(group.size(), false) {
    for (const AllReduceSlice& slice : request.slices) {
      const std::size_t place = streams_.place_of(slice.gradient.device());
      values_[place] = slice.gradient.raw_data();
      contributes_[place] = slice.contributes;
      task.keep(slice.gradient);
    }
  }

  void run() {
    streams_.wait_for(request_.ready);
    if (request_.wire != GradientWire::native)
      sum_over_wire();
    else if (is_narrow(first_.dtype()))
      sum_narrow(narrow_sum(first_.dtype(), request_.denominator), streams_, task_);
    else
      sum_wide();
    streams_.record_done(task_);
  }

 private:
  bool alone() const { return group_.size() == group_.world(); }  // this process knows who contributes

  void sum_wide() {
    for (std::size_t place = 0; place < group_.size(); ++place) stand_in(place);
    streams_.together(task_, [this] {
      for (std::size_t place = 0; place < group_.size(); ++place)
        streams_.all_reduce(place, values_[place], values_[place], first_.size(), first_.dtype());
    });
    for (std::size_t place = 0; place < group_.size(); ++place)
      streams_.divide(place, first_.dtype(), values_[place], first_.size(), request_.denominator);
  }

  // Zeros, unless the device contributes.
  void stand_in(std::size_t place) {
    if (contributes_[place]) return;
    if (values_[place] == nullptr) values_[place] = streams_.workspace(place, first_.bytes(), task_);
    streams_.wait_for_users(place);
    streams_.clear(place, values_[place], first_.bytes());
    contributes_[place] = true;
  }

  // Who is silent needs no place in the sum, but that other processes wait for its zeros.
  NarrowSum narrow_sum(DType dtype, double denominator) {
    for (std::size_t place = 0; place < group_.size(); ++place)
      if (!alone())
        stand_in(place);
      else if (values_[place] != nullptr && !contributes_[place])
        streams_.wait_for_users(place);
    NarrowSum sum{.dtype = dtype, .count = first_.size(), .denominator = denominator, .values = values_};
    if (!alone()) {
      sum.ranks.resize(group_.world());
      std::iota(sum.ranks.begin(), sum.ranks.end(), std::size_t{0});
      sum.contributors = sum.numbers = sum.ranks;
      return sum;
    }
    for (std::size_t i = 0; i < request_.slices.size(); ++i) {
      sum.ranks.push_back(streams_.place_of(request_.slices[i].gradient.device()));
      if (!request_.slices[i].contributes) continue;
      sum.contributors.push_back(sum.ranks.back());
      sum.numbers.push_back(request_.number_of(i));
    }
    return sum;
  }

  // Each contribution is packed where it is, and each result unpacked where it arrives.
  void sum_over_wire() {
    const DType wire = request_.wire == GradientWire::bf16 ? DType::bf16 : DType::f16;
    NarrowSum sum = narrow_sum(wire, request_.denominator * request_.wire_scale);
    const auto bytes = static_cast<std::size_t>(first_.size()) * size_of(wire);
    const auto scale = static_cast<float>(request_.wire_scale);
    for (std::size_t place = 0; place < group_.size(); ++place) {
      if (values_[place] == nullptr) continue;
      std::byte* const packed = sum.values[place] = streams_.workspace(place, bytes, task_);
      if (contributes_[place])
        streams_.launch(place, [&](cudaStream_t stream) {
          cuda_kernels::launch_pack(stream, wire, reinterpret_cast<const float*>(values_[place]), packed, first_.size(),
                                    scale);
        });
    }
    sum_narrow(sum, streams_, task_);
    for (std::size_t place = 0; place < group_.size(); ++place)
      if (values_[place] != nullptr)
        streams_.launch(place, [&](cudaStream_t stream) {
          cuda_kernels::launch_unpack(stream, wire, sum.values[place], reinterpret_cast<float*>(values_[place]),
                                      first_.size());
        });
  }

  const AllReduceRequest& request_;
  const Array& first_;
  NcclGroup& group_;
  NcclTask& task_;
  NcclStreams streams_;
  std::vector<std::byte*> values_;  // by place; null: without a slice
  std::vector<bool> contributes_;
};

}  // namespace

void launch_all_reduce(const AllReduceRequest& request, NcclGroup& group, NcclTask& task) {
  AllReduceLaunch(request, group, task).run();
}

namespace {

/// A receiver's arrays, and how far they are filled.
struct Received {
  std::size_t place;
  SparseGradient sum;
  std::size_t row = 0;
};

std::vector<Received> make_results(const SparseReduction& request, const NcclStreams& streams, NcclTask& task) {
  std::int64_t count = 0;
  for (const auto& contribution : request.contributions)
    for (const SparseGradient& part : contribution.parts) count += part.count();
  Shape shape = request.parameter.shape;
  shape[0] = count;
  std::vector<Received> results;
  for (std::size_t member = 0; member < request.receivers.size(); ++member) {
    if (!request.result->receives[member]) continue;
    const Device device = request.receivers[member];
    const SparseGradient sum{Array::empty({count}, DType::i64, device),
                             Array::empty(shape, request.parameter.dtype, device), request.parameter.shape, false};
    task.keep(sum.indices);
    task.keep(sum.rows);
    results.push_back({streams.place_of(device), sum});
    streams.wait_for_users(results.back().place);
    request.result->gradients[member] = {sum};
  }
  return results;
}

/// An array of a part on its way to one receiver: within a device it is copied, else it is one of NCCL's transfers.
struct RowTransfer {
  std::size_t from_place;
  std::size_t to_place;
  const std::byte* from;
  std::byte* to;
  std::size_t bytes;
};

std::vector<RowTransfer> plan_transfers(const SparseReduction& request, const NcclStreams& streams,
                                        std::vector<Received>& results) {
  std::vector<RowTransfer> transfers;
  for (const auto& contribution : request.contributions)
    for (const SparseGradient& part : contribution.parts)
      for (Received& result : results) {
        const std::size_t from = streams.place_of(contribution.member.device);
        const auto rows = static_cast<std::size_t>(part.count());
        const auto add = [&](const Array& array, const Array& sum) {
          if (array.bytes() == 0) return;
          const std::size_t row_bytes = array.bytes() / rows;
          transfers.push_back(
              {from, result.place, array.raw_data(), sum.raw_data() + result.row * row_bytes, array.bytes()});
        };
        add(part.indices, result.sum.indices);
        add(part.rows, result.sum.rows);
        result.row += rows;
      }
  return transfers;
}

}  // namespace

void launch_sparse(const SparseReduction& request, NcclGroup& group, NcclTask& task) {
  if (group.size() < group.world())
    raise<SyncError>(
        "[reduce_sparse] parameter \"{}\": sparse gradients are reduced between devices of one process, as no other "
        "knows how many rows there are",
        request.parameter.name);
  const NcclStreams streams(group, "reduce_sparse");
  for (const auto& contribution : request.contributions)
    for (const SparseGradient& part : contribution.parts) {
      task.keep(part.indices);
      task.keep(part.rows);
    }
  streams.wait_for(request.ready);
  std::vector<Received> results = make_results(request, streams, task);
  const std::vector<RowTransfer> transfers = plan_transfers(request, streams, results);
  const auto is_copy = [](const RowTransfer& transfer) { return transfer.from_place == transfer.to_place; };
  for (const RowTransfer& transfer : transfers)
    if (is_copy(transfer)) streams.copy(transfer.to_place, transfer.to, transfer.from, transfer.bytes);
  if (!std::ranges::all_of(transfers, is_copy))
    streams.together(task, [&] {
      for (const RowTransfer& transfer : transfers) {
        if (is_copy(transfer)) continue;
        streams.send(transfer.from_place, transfer.from, transfer.bytes, transfer.to_place);
        streams.receive(transfer.to_place, transfer.to, transfer.bytes, transfer.from_place);
      }
    });
  for (const Received& result : results)
    streams.divide(result.place, result.sum.rows.dtype(), result.sum.rows.raw_data(), result.sum.rows.size(),
                   request.denominator);
  streams.record_done(task);
}

}  // namespace tutti
