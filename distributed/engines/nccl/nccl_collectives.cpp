// SPDX-License-Identifier: Apache-2.0
// Collectives of the users' own.
#include <tutti/distributed/engines/nccl/nccl_collectives.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/nccl/nccl_streams.h>
#include <tutti/distributed/engines/nccl/nccl_task.h>
#include <tutti/distributed/engines/peer/slice_table.h>

#include <algorithm>
#include <functional>
#include <string_view>

namespace tutti {

using cuda_kernels::Combination;
using cuda_kernels::SliceOperation;
using cuda_kernels::SliceTable;

namespace {

/// One launch, part by part. All that is sent goes in one NCCL group; what is combined or divided comes after it.
class NcclCollectiveLaunch {
 public:
  NcclCollectiveLaunch(const CollectiveRequest& request, NcclGroup& group, NcclTask& task)
      : request_(request), group_(group), task_(task), streams_(group, kName) {}

  void run() {
    for (const Array& array : request_.inputs) task_.keep(array);
    for (const Array& array : request_.outputs) task_.keep(array);
    streams_.wait_for(request_.ready);
    for (const Array& output : request_.outputs)
      if (output.defined()) streams_.wait_for_users(place_of(output));
    for (const CollectivePart& part : request_.parts) plan(part);
    if (!sends_.empty())
      streams_.together(task_, [this] {
        for (const auto& send : sends_) send();
      });
    for (const auto& finish : after_) finish();
    streams_.record_done(task_);
  }

 private:
  using Place = CollectivePart::Place;
  static constexpr std::string_view kName = "collective";

  /// Its device's place in this process, for an array that is here.
  std::size_t place_of(const Array& array) const { return streams_.place_of(array.device()); }
  std::size_t rank_of(const std::vector<Array>& arrays, const Place& place) const {
    const Array& array = arrays[place.member];
    return array.defined() ? group_.first_rank() + place_of(array) : place.number;
  }
  std::byte* address(const std::vector<Array>& arrays, const Place& place) const {
    const Array& array = arrays[place.member];
    return array.raw_data() + place.offset * static_cast<std::int64_t>(size_of(array.dtype()));
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
  bool adds() const {
    return request_.operation == CollectiveOperation::sum || request_.operation == CollectiveOperation::mean;
  }

  bool is_of_all(const std::vector<Place>& places, const std::vector<Array>& arrays) const {
    std::vector<bool> seen(group_.world(), false);
    for (const Place& place : places) seen[rank_of(arrays, place)] = true;
    return places.size() == group_.world() && std::ranges::all_of(seen, [](bool found) { return found; });
  }

  void plan(const CollectivePart& part) {
    if (part.count == 0 || part.targets.empty()) return;
    const std::size_t bytes = static_cast<std::size_t>(part.count) * size_of(dtype_);
    if (part.sources.empty()) {
      for (const Place& target : part.targets)
        if (const Array& output = request_.outputs[target.member]; output.defined())
          streams_.clear(place_of(output), address(request_.outputs, target), bytes);
      return;
    }
    const bool sums_all = adds() && group_.world() > 1 && is_of_all(part.sources, request_.inputs);
    const bool to_all = sums_all && is_of_all(part.targets, request_.outputs);
    if (to_all && is_narrow(dtype_) && is_floating(dtype_)) return plan_narrow_sum(part, bytes);
    if (!is_narrow(dtype_) && (to_all || (sums_all && part.targets.size() == 1))) return plan_sum(part);
    for (const Place& target : part.targets) plan_target(part, target, bytes);
  }

  // The usual sums of whole groups, which NCCL does best; its order is its own.
  void plan_sum(const CollectivePart& part) {
    const bool everywhere = part.targets.size() > 1;
    const std::size_t root = rank_of(request_.outputs, part.targets.front());
    std::vector<std::byte*> results(group_.size(), nullptr);
    for (const Place& target : part.targets)
      if (const Array& output = request_.outputs[target.member]; output.defined())
        results[place_of(output)] = address(request_.outputs, target);
    for (const Place& source : part.sources) {
      if (!request_.inputs[source.member].defined()) continue;
      const std::size_t place = place_of(request_.inputs[source.member]);
      const std::byte* from = address(request_.inputs, source);
      sends_.push_back([=, this, to = results[place], count = part.count] {
        if (everywhere)
          streams_.all_reduce(place, from, to, count, dtype_);
        else
          streams_.reduce(place, from, to, count, dtype_, root);
      });
    }
    for (std::size_t place = 0; place < results.size(); ++place)
      if (results[place] != nullptr)
        after_.push_back([=, this, to = results[place], by = operation(part).denominator, count = part.count] {
          streams_.divide(place, dtype_, to, count, by);
        });
  }

  // In the targets themselves, where each device's own numbers are copied first.
  void plan_narrow_sum(const CollectivePart& part, std::size_t bytes) {
    NarrowSum sum{.dtype = dtype_, .count = part.count, .denominator = operation(part).denominator};
    sum.values.resize(group_.size(), nullptr);
    for (const Place& target : part.targets)
      if (const Array& output = request_.outputs[target.member]; output.defined())
        sum.values[place_of(output)] = address(request_.outputs, target);
    for (const Place& source : part.sources) {
      sum.contributors.push_back(rank_of(request_.inputs, source));
      sum.numbers.push_back(source.number);
      if (!request_.inputs[source.member].defined()) continue;
      const std::size_t place = place_of(request_.inputs[source.member]);
      const std::byte* const from = address(request_.inputs, source);
      if (std::byte* const to = sum.values[place]; from != to)
        after_.push_back([=, this] { streams_.copy(place, to, from, bytes); });
    }
    sum.ranks = sum.contributors;
    after_.push_back([sum = std::move(sum), this] { sum_narrow(sum, streams_, task_); });
  }

  // A copy arrives in the target itself. Other sources arrive beside it, and are combined when all that is sent has
  // been: the target may be a source too.
  void plan_target(const CollectivePart& part, const Place& target, std::size_t bytes) {
    const Array& output = request_.outputs[target.member];
    const SliceOperation combination = operation(part);
    const bool is_copy = part.sources.size() == 1 && combination.denominator == 1.0;
    if (!output.defined() || is_copy) {
      std::byte* const to = output.defined() ? address(request_.outputs, target) : nullptr;
      for (const Place& source : part.sources) send(source, target, to, bytes);
      return;
    }
    const std::size_t here = place_of(output);
    SliceTable table;
    add_target(kName, table, address(request_.outputs, target));
    for (const Place& source : part.sources) {
      const bool own = rank_of(request_.inputs, source) == group_.first_rank() + here;
      std::byte* const from = own ? address(request_.inputs, source) : streams_.workspace(here, bytes, task_);
      if (!own) send(source, target, from, bytes);
      add_source(kName, table, from, source.number);
    }
    after_.push_back([=, this, count = part.count] { streams_.combine(here, dtype_, table, count, combination); });
  }

  // This process's ends of it: none, one or both. All processes list transfers in the same order.
  void send(const Place& source, const Place& target, std::byte* to, std::size_t bytes) {
    const Array& input = request_.inputs[source.member];
    const Array& output = request_.outputs[target.member];
    const std::size_t from_rank = rank_of(request_.inputs, source);
    const std::size_t to_rank = rank_of(request_.outputs, target);
    const std::byte* const from = input.defined() ? address(request_.inputs, source) : nullptr;
    if (from_rank == to_rank) {
      if (from != to) streams_.copy(place_of(output), to, from, bytes);
      return;
    }
    if (input.defined())
      sends_.push_back([=, this, here = place_of(input)] { streams_.send(here, from, bytes, to_rank); });
    if (output.defined())
      sends_.push_back([=, this, here = place_of(output)] { streams_.receive(here, to, bytes, from_rank); });
  }

  /// Of what is here; other processes' arrays have the same.
  static DType dtype_of_all(const CollectiveRequest& request) {
    if (request.dtype) return *request.dtype;
    for (const auto* arrays : {&request.outputs, &request.inputs})
      for (const Array& array : *arrays)
        if (array.defined()) return array.dtype();
    return DType::f32;
  }

  const CollectiveRequest& request_;
  NcclGroup& group_;
  NcclTask& task_;
  DType dtype_ = dtype_of_all(request_);
  NcclStreams streams_;
  std::vector<std::function<void()>> sends_;
  std::vector<std::function<void()>> after_;
};

}  // namespace

void launch_collective(const CollectiveRequest& request, NcclGroup& group, NcclTask& task) {
  NcclCollectiveLaunch(request, group, task).run();
}

}  // namespace tutti
