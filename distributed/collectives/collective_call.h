// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>
#include <tutti/backend/shape.h>
#include <tutti/distributed/collectives/member.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,  ///< the gradient of broadcast: combined on the root, zeros elsewhere
  all_to_all,
  barrier,
  gather_in_place,  ///< every device's share of some parameters, into the others' parameters (ShardedOptimizer)
};

/// How the devices' values become one. Sums run in a balanced tree over the devices' numbers, in the
/// values' own type, 16-bit ones in f32.
enum class CollectiveOperation : std::uint8_t {
  sum,
  mean,  ///< floating types
  max,   ///< NaN wins
  min,   ///< NaN wins
};

/// One device's request to its group. All devices of the group must ask for the same.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::barrier;
  CollectiveOperation operation = CollectiveOperation::sum;  ///< used by those that reduce
  Member root{};                                             ///< root of broadcast and reduce
  std::vector<std::int64_t> lengths{};                       ///< each device's part, in reduce_scatter and all_to_all
  Shape shape{};                                             ///< shape of the device's tensor
  DType dtype = DType::f32;
  std::string purpose{};  ///< use of the result, as errors tell it, of at most kMostPurpose bytes; empty: not told
};
inline constexpr std::size_t kMostPurpose = 200;

std::string_view to_string(CollectiveKind) noexcept;  ///< "all_reduce"
bool reduces(CollectiveKind) noexcept;
bool has_root(CollectiveKind) noexcept;
/// True if axis 0 is cut into, or put together from, the devices' parts.
bool has_parts(CollectiveKind) noexcept;

/// "reduce_scatter sum [5, 2] f32 in parts [3, 2]", and "for ..." with its purpose; equal for calls of which neither
/// differs where it may not. `world`: number of processes.
std::string to_string(const CollectiveCall&, int world = 1);

/// True if two devices' calls belong together. They may differ in the length along axis 0 of all_gather and all_to_all,
/// and in how all_to_all is cut.
bool agree(const CollectiveCall&, const CollectiveCall&);

/// Throws ShapeError, DTypeError or, for a purpose that is too long, SyncError if no group could do this, whatever the
/// other devices ask for.
void check(const CollectiveCall&, std::size_t devices);

/// The collective that carries the gradients of this one's results back to its inputs. `received`: the lengths along
/// axis 0 that came from each device. Shape and dtype are those of the gradient it is called with.
CollectiveCall transposed(const CollectiveCall&, const std::vector<std::int64_t>& received);

/// `length` rows cut into one part for each device, as evenly as possible, the longer parts first.
std::vector<std::int64_t> even_parts(std::int64_t length, std::size_t devices);

}  // namespace tutti
