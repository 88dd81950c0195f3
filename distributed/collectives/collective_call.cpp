// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collectives/collective_call.h>

#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>

namespace tutti {

namespace {

std::string_view name_of(CollectiveOperation operation) {
  switch (operation) {
    case CollectiveOperation::sum: return "sum";
    case CollectiveOperation::mean: return "mean";
    case CollectiveOperation::max: return "max";
    case CollectiveOperation::min: return "min";
  }
  return "operation";
}

// Without axis 0.
std::span<const std::int64_t> row_shape(const Shape& shape) {
  return std::span(shape.data(), shape.size()).subspan(std::min<std::size_t>(1, shape.size()));
}

}  // namespace

std::string_view to_string(CollectiveKind kind) noexcept {
  switch (kind) {
    case CollectiveKind::all_reduce: return "all_reduce";
    case CollectiveKind::reduce_scatter: return "reduce_scatter";
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::broadcast: return "broadcast";
    case CollectiveKind::reduce: return "reduce";
    case CollectiveKind::all_to_all: return "all_to_all";
    case CollectiveKind::barrier: return "barrier";
    case CollectiveKind::gather_in_place: return "gather_in_place";
  }
  return "collective";
}

bool reduces(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::reduce;
}

bool has_root(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
}

bool has_parts(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_gather ||
         kind == CollectiveKind::all_to_all;
}

std::string to_string(const CollectiveCall& call, int world) {
  std::string text(to_string(call.kind));
  if (reduces(call.kind)) text += fmt::format(" {}", name_of(call.operation));
  if (has_root(call.kind))
    text += fmt::format(" {} {}", call.kind == CollectiveKind::reduce ? "to" : "from", to_string(call.root, world));
  if (call.kind != CollectiveKind::barrier) text += fmt::format(" {} {}", to_string(call.shape), to_string(call.dtype));
  if (!call.lengths.empty()) text += " in parts " + to_string(Shape(std::span(call.lengths)));
  if (!call.purpose.empty()) text += " for " + call.purpose;
  return text;
}

bool agree(const CollectiveCall& a, const CollectiveCall& b) {
  if (a.kind != b.kind || a.purpose != b.purpose) return false;
  if (a.kind == CollectiveKind::barrier) return true;
  if (a.dtype != b.dtype) return false;
  if (reduces(a.kind) && a.operation != b.operation) return false;
  if (has_root(a.kind) && a.root != b.root) return false;
  if (a.kind == CollectiveKind::all_gather || a.kind == CollectiveKind::all_to_all)
    return a.shape.size() == b.shape.size() && std::ranges::equal(row_shape(a.shape), row_shape(b.shape));
  return a.shape == b.shape && a.lengths == b.lengths;
}

void check(const CollectiveCall& call, std::size_t devices) {
  const std::string_view name = to_string(call.kind);
  checks::require_enumerator(name, "CollectiveOperation", call.operation, CollectiveOperation::min);
  if (reduces(call.kind) && call.dtype == DType::boolean) raise<DTypeError>("[{}] bool cannot be reduced", name);
  if (reduces(call.kind) && call.operation == CollectiveOperation::mean && !is_floating(call.dtype))
    raise<DTypeError>("[{}] the mean of {} is not defined: cast first", name, to_string(call.dtype));
  if (call.purpose.size() > kMostPurpose)
    raise<SyncError>("[{}] its purpose has {} bytes: at most {}", name, call.purpose.size(), kMostPurpose);
  if (!has_parts(call.kind)) return;
  if (call.shape.empty()) raise<ShapeError>("[{}] a tensor of rank 0 has no axis 0", name);
  if (call.kind == CollectiveKind::all_gather) return;
  const bool negative = std::ranges::any_of(call.lengths, [](std::int64_t length) { return length < 0; });
  const std::int64_t total = std::accumulate(call.lengths.begin(), call.lengths.end(), std::int64_t{0});
  if (call.lengths.size() != devices || negative || total != call.shape[0])
    raise<ShapeError>("[{}] parts {} do not cut axis 0 of {} for {} devices", name,
                      to_string(Shape(std::span(call.lengths))), to_string(call.shape), devices);
}

CollectiveCall transposed(const CollectiveCall& call, const std::vector<std::int64_t>& received) {
  CollectiveCall back{.kind = call.kind, .root = call.root};
  if (!call.purpose.empty()) back.purpose = ("the gradient of " + call.purpose).substr(0, kMostPurpose);
  switch (call.kind) {
    case CollectiveKind::reduce_scatter: back.kind = CollectiveKind::all_gather; break;
    case CollectiveKind::all_gather: back.kind = CollectiveKind::reduce_scatter; [[fallthrough]];
    case CollectiveKind::all_to_all: back.lengths = received; break;
    case CollectiveKind::broadcast: back.kind = CollectiveKind::reduce; break;
    case CollectiveKind::reduce: back.kind = CollectiveKind::broadcast; break;
    case CollectiveKind::all_reduce:
    case CollectiveKind::gather_in_place:
    case CollectiveKind::barrier: back.operation = call.operation; break;
  }
  return back;
}

std::vector<std::int64_t> even_parts(std::int64_t length, std::size_t devices) {
  const auto count = static_cast<std::int64_t>(devices);
  std::vector<std::int64_t> parts(devices, length / count);
  std::fill_n(parts.begin(), length % count, length / count + 1);
  return parts;
}

}  // namespace tutti
