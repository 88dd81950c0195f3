// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collectives/collective_plan.h>

#include <tutti/backend/formulas/slice_formulas.h>
#include <tutti/distributed/collectives/block_sums.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <type_traits>

namespace tutti {

namespace {

using Place = CollectivePart::Place;

std::int64_t row_size(const Shape& shape) {
  return std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
}

Shape with_rows(Shape shape, std::int64_t rows) {
  shape[0] = rows;
  return shape;
}

std::vector<Place> everywhere(std::size_t members, std::int64_t offset = 0) {
  std::vector<Place> places;
  for (std::size_t member = 0; member < members; ++member) places.push_back({member, offset});
  return places;
}

// all_reduce, broadcast, reduce: one part, and zeros for those that a reduce leaves out.
CollectivePlan plan_whole(std::span<const CollectiveCall> calls, std::span<const Member> members) {
  const CollectiveCall& call = calls.front();
  const auto root = static_cast<std::size_t>(std::ranges::find(members, call.root) - members.begin());
  CollectivePart part{element_count(call.shape), everywhere(calls.size()), everywhere(calls.size())};
  CollectivePlan plan{{}, std::vector<Shape>(calls.size(), call.shape)};
  if (call.kind == CollectiveKind::broadcast) part.sources = {{root, 0}};
  if (call.kind == CollectiveKind::reduce) {
    CollectivePart zeros{part.count, {}, part.targets};
    zeros.targets.erase(zeros.targets.begin() + static_cast<std::ptrdiff_t>(root));
    part.targets = {{root, 0}};
    plan.parts.push_back(std::move(zeros));
  }
  plan.parts.push_back(std::move(part));
  return plan;
}

CollectivePlan plan_reduce_scatter(std::span<const CollectiveCall> calls) {
  const CollectiveCall& call = calls.front();
  CollectivePlan plan;
  std::int64_t offset = 0;
  for (std::size_t member = 0; member < calls.size(); ++member) {
    const std::int64_t count = call.lengths[member] * row_size(call.shape);
    plan.parts.push_back({count, everywhere(calls.size(), offset), {{member, 0}}});
    plan.outputs.push_back(with_rows(call.shape, call.lengths[member]));
    offset += count;
  }
  return plan;
}

CollectivePlan plan_all_gather(std::span<const CollectiveCall> calls) {
  CollectivePlan plan;
  std::vector<std::int64_t> lengths;
  std::int64_t offset = 0;
  for (std::size_t member = 0; member < calls.size(); ++member) {
    const std::int64_t count = element_count(calls[member].shape);
    plan.parts.push_back({count, {{member, 0}}, everywhere(calls.size(), offset)});
    lengths.push_back(calls[member].shape[0]);
    offset += count;
  }
  const std::int64_t rows = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  plan.outputs.assign(calls.size(), with_rows(calls.front().shape, rows));
  plan.received.assign(calls.size(), lengths);
  return plan;
}

CollectivePlan plan_all_to_all(std::span<const CollectiveCall> calls) {
  CollectivePlan plan;
  const std::int64_t row = row_size(calls.front().shape);
  std::vector<std::int64_t> sent(calls.size(), 0);
  for (std::size_t to = 0; to < calls.size(); ++to) {
    std::vector<std::int64_t> lengths;
    std::int64_t rows = 0;
    for (std::size_t from = 0; from < calls.size(); ++from) {
      const std::int64_t length = calls[from].lengths[to];
      plan.parts.push_back({length * row, {{from, sent[from] * row}}, {{to, rows * row}}});
      sent[from] += length;
      rows += length;
      lengths.push_back(length);
    }
    plan.outputs.push_back(with_rows(calls[to].shape, rows));
    plan.received.push_back(std::move(lengths));
  }
  return plan;
}

template <class T> void combine_into(CollectiveOperation operation, std::span<const T* const> sources,
                                     std::span<const std::uint8_t> joins, std::span<T* const> targets,
                                     std::int64_t count, double divisor) {
  const auto sum = [&](double denominator) {
    with_cheapest_quotient<ComputedIn<T>>(denominator, [&]<class Quotient>(const Quotient& quotient) {
      sum_blocks<T>(sources, joins, targets, count, PlainSum<T, Quotient>{quotient});
    });
  };
  switch (operation) {
    case CollectiveOperation::sum: return sum(divisor);
    case CollectiveOperation::mean: return sum(static_cast<double>(sources.size()));
    case CollectiveOperation::max: return sum_blocks<T>(sources, joins, targets, count, Largest<T>{});
    case CollectiveOperation::min: return sum_blocks<T>(sources, joins, targets, count, Smallest<T>{});
  }
}

}  // namespace

CollectivePlan plan_collective(std::span<const CollectiveCall> calls, std::span<const Member> members) {
  switch (calls.front().kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce: return plan_whole(calls, members);
    case CollectiveKind::reduce_scatter: return plan_reduce_scatter(calls);
    case CollectiveKind::all_gather: return plan_all_gather(calls);
    case CollectiveKind::all_to_all: return plan_all_to_all(calls);
    case CollectiveKind::gather_in_place:  // its plan is the group's ShardPlan
    case CollectiveKind::barrier: break;
  }
  return {};
}

void combine(const CollectiveRequest& request, const CollectivePart& part, std::int64_t begin, std::int64_t count) {
  if (count == 0 || part.targets.empty()) return;
  const DType dtype = request.outputs[part.targets.front().member].dtype();
  const auto address = [&](const std::vector<Array>& arrays, const Place& place) {
    return arrays[place.member].raw_data() + (place.offset + begin) * static_cast<std::int64_t>(size_of(dtype));
  };
  if (part.sources.empty() || (part.sources.size() == 1 && request.denominator == 1.0)) {
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
    for (const Place& target : part.targets) {
      if (part.sources.empty())
        std::memset(address(request.outputs, target), 0, bytes);
      else
        std::memcpy(address(request.outputs, target), address(request.inputs, part.sources.front()), bytes);
    }
    return;
  }
  SumTree tree;
  tree.reserve(part.sources.size());
  for (const Place& place : part.sources) tree.add(place.number);
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, bool>) {  // refused when it was posted
      std::vector<const T*> sources;
      std::vector<T*> targets;
      sources.reserve(part.sources.size());
      targets.reserve(part.targets.size());
      for (const Place& place : part.sources)
        sources.push_back(reinterpret_cast<const T*>(address(request.inputs, place)));
      for (const Place& place : part.targets) targets.push_back(reinterpret_cast<T*>(address(request.outputs, place)));
      combine_into<T>(request.operation, sources, tree.joins(), targets, count, request.denominator);
    }
  });
}

}  // namespace tutti
