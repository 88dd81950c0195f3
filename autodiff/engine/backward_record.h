// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/engine/backward_run.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace tutti {

/// A record of one captured backward, for replays, which have no graph: what it did to leaves, and at which places of
/// the tape. Leaves must live on.
struct BackwardRecord {
  struct Final {
    LeafNode* leaf;
    std::size_t after;  ///< number of the tape's calls before it
    bool null;          ///< nothing was added to it
  };

  Device device;
  double weight = 1.0;          ///< factor of the root's gradient
  std::size_t begun_after = 0;  ///< number of the tape's calls before backward: forward, mostly
  std::vector<BackwardRun::Leaf> leaves;
  std::vector<GradientState> before;     ///< state of each leaf's gradient as backward began
  std::vector<const std::byte*> places;  ///< address where each leaf's gradient was made: its slot's destination
  std::vector<Final> finals;             ///< final gradients, one after the other as they came
};

/// The weight of a backward on this thread: the options' and, without an observer, that of LocalAccumulation.
double weight_of(const BackwardOptions&);

/// Makes of a replayed tape what `backward` makes of a graph: gradients in their slots, and calls of the observer. It
/// runs the tape itself, by `run(begin, end)`, in segments that end where a gradient is final for which something
/// waits.
void replay_backward(const BackwardRecord&, const BackwardOptions&, std::size_t tape_size,
                     const std::function<void(std::size_t, std::size_t)>& run);

}  // namespace tutti
