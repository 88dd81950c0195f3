// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations/normalization.h>

namespace tutti {

class GradientSync;
class Module;

/// Gathers the statistics of a batch that lies on all devices of the group, each with its part: one all_gather in each
/// forward of a layer, and its gradient in backward. All devices must run the same layers in the same order, each on a
/// thread of its own. A device without data goes on with empty batches, through forward and the step's backward, of
/// weight 0 (EmptyBatch, nn/empty_batch.h, is for their losses); one that left is waited for until the deadline,
/// SyncOptions::fail_after. The group must outlive what it returns.
GatherStatistics gather_statistics(GradientSync&);

/// Lets every BatchNorm of a model, before or after it is replicated, normalise by the whole group's batch in training
/// (Peng et al., "MegDet", 2018). Running statistics are then the same bits on all devices: BufferPolicy::synchronised
/// fits.
void synchronize_batch_norms(Module&, GradientSync&);
bool has_synchronized_batch_norms(Module&);  ///< some BatchNorm gathers its statistics

}  // namespace tutti
