// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/stream.h>
#include <tutti/distributed/collectives/collective_plan.h>
#include <tutti/distributed/layout/gradient_layout.h>
#include <tutti/distributed/sync_options.h>

#include <span>
#include <vector>

namespace tutti {

/// One device's part in making a step's buffers equal.
struct BufferShare {
  std::vector<Array> arrays;  ///< buffers in the replica's order; contiguous; written in place. Empty: takes no part
  Event ready;                ///< earlier than this they may not be touched; unrecorded: past
  bool reads = true;          ///< false: receives only (a follower)
  bool examples = true;       ///< the device had any in this step
  bool outside = false;       ///< true: takes part in another process, which has the arrays
};

/// Plans the requests that make the buffers equal: one request per dtype that has something to do, whose places count
/// arrays. The devices that count are those that had examples; all, if none had. Under BufferPolicy::main every buffer
/// becomes that of the first of them, under `mean` a floating one becomes their plain mean. Arrays of other processes
/// stay undefined.
std::vector<CollectiveRequest> plan_buffers(BufferPolicy, std::span<const SyncParameter> buffers,
                                            std::span<const BufferShare> by_number);

}  // namespace tutti
