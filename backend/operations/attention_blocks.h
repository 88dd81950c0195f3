// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attention by other kernels, block by block of queries and keys, with a running maximum and sum: for kinds of device
// without a kernel of it, and with dropout.

#include <tutti/backend/operations.h>

namespace tutti::attention_blocks {

/// The operands are checked and of the type that is computed in, the mask broadcast to all queries and keys; so are
/// the results.
AttentionRun run(const AttentionScores&, const AttentionOperands&, const AttentionDropout&);
AttentionOperands gradients(const AttentionScores&, const AttentionOperands&, const AttentionDropout&,
                            const AttentionRun&, const Array& gradient);

}  // namespace tutti::attention_blocks
