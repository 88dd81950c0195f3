// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>

#include <cstdint>

namespace tutti {

/// Throws SyncError naming the devices unless the slices agree and are contiguous, DTypeError unless they are floating,
/// or not f32 for a 16-bit wire.
void check_slices(const AllReduceRequest&);

/// Does elements [begin, begin + count) of an all-reduce in host memory, whoever calls: each element is summed by one
/// thread in the slices' order, so results depend neither on how the work was cut nor on who did it.
void sum_elements(const AllReduceRequest&, std::int64_t begin, std::int64_t count);

/// Power of two by which gradients are multiplied before they travel in 16 bits, so that those of a weighted mean,
/// which carry their batches' weights, have the size of their mean: the largest not above contributors / total weight.
double weighted_wire_scale(std::int64_t contributors, double total_weight);

}  // namespace tutti
