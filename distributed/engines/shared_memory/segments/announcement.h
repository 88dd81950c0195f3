// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>
#include <tutti/distributed/collectives/process_members.h>
#include <tutti/distributed/sync_options.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace tutti {

/// A process's side of a reduction, as it tells the others in shared memory.
struct Announcement {
  enum class Kind : std::uint8_t { all_reduce, collective, rows };

  /// Elements of one device, somewhere in its process's segment.
  struct Slice {
    std::uint64_t offset = 0;  ///< bytes from the segment's start
    std::uint32_t number = 0;  ///< the device's in the group
    bool contributes = false;
    std::uint64_t rows = 0;  ///< their number, of a sparse gradient
  };

  // The same for all processes, or they do not mean the same reduction.
  Kind kind = Kind::all_reduce;
  DType dtype = DType::f32;
  GradientWire wire = GradientWire::native;
  std::uint64_t elements = 0;  ///< number in the whole request; of rows: in one of them
  std::uint64_t parts = 0;     ///< hash of what a collective combines and where it goes
  double denominator = 1.0;
  double wire_scale = 1.0;
  char name[96] = {};  ///< name of the parameter or collective, cut off, for errors

  std::uint32_t slices = 0;
  Slice slice[kMostSharedSlices] = {};

  void set_name(std::string_view) noexcept;
};
static_assert(std::is_trivially_copyable_v<Announcement>);

/// Names the first difference between two processes' announcements, with both values: "rank 0 has 12 elements, rank 1
/// has 13"; empty: they mean the same reduction.
std::string difference(const Announcement&, int rank, const Announcement& other, int other_rank);

}  // namespace tutti
